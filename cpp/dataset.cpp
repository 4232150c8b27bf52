#include "dataset.hpp"

#include "layer.hpp"

#include "cpl_json.h"
#include "gdal_pam.h"
#include "gdalsubdatasetinfo.h"

#include <algorithm>
#include <set>

namespace mdimrefs
{

namespace
{

// Bands of a classic dataset, at most (the bound of GDAL's own Zarr driver).
constexpr GUInt64 MAX_BANDS = 65536;

// A store without bands: its root group, its layers, or its list of
// subdatasets.
class Dataset final : public GDALDataset
{
  public:
    explicit Dataset(std::shared_ptr<OpenStore> store)
        : m_store(std::move(store))
    {
    }

    std::shared_ptr<GDALGroup> GetRootGroup() const override
    {
        return m_root;
    }

    char **GetFileList() override
    {
        return CSLAddString(nullptr, m_store->path.c_str());
    }

    void ShowGroup()
    {
        m_root = m_store->RootGroup();
    }

    void ShowLayers()
    {
        m_layers = MakeLayers(m_store, this);
    }

    using GDALDataset::GetLayer;

    int GetLayerCount() const override
    {
        return static_cast<int>(m_layers.size());
    }

    const OGRLayer *GetLayer(int number) const override
    {
        const bool exists =
            number >= 0 && static_cast<size_t>(number) < m_layers.size();
        return exists ? m_layers[static_cast<size_t>(number)].get() : nullptr;
    }

    int TestCapability(const char *) const override
    {
        return FALSE;
    }

    // SQLite's own SQL on the store, unless another dialect is asked for.
    OGRLayer *ExecuteSQL(const char *sql, OGRGeometry *filter,
                         const char *dialect) override
    {
        if (m_layers.empty() ||
            (dialect && *dialect != '\0' && !EQUAL(dialect, "NATIVE")))
            return GDALDataset::ExecuteSQL(sql, filter, dialect);
        return Guarded([&] { return RunQuery(m_store, sql).release(); },
                       static_cast<OGRLayer *>(nullptr));
    }

    void ReleaseResultSet(OGRLayer *layer) override
    {
        delete layer;
    }

  private:
    std::shared_ptr<OpenStore> m_store;
    std::shared_ptr<GDALGroup> m_root;
    std::vector<std::unique_ptr<OGRLayer>> m_layers;
};

std::string SubdatasetName(const OpenStore &store, const ArrayInfo &array)
{
    return std::string(PREFIX) + "\"" + store.path + "\":" + array.fullName;
}

// Arrays that are maps: numbers over two dimensions or more, and no bounds of a
// coordinate.
std::vector<size_t> Maps(const OpenStore &store)
{
    std::set<std::string> bounds;
    for (const auto &array : store.arrays)
    {
        for (const auto &attribute : array.attributes)
        {
            if ((attribute.name == "bounds" ||
                 attribute.name == "climatology") &&
                attribute.values.size() == 1)
                bounds.insert((array.parent == "/" ? "/" : array.parent + "/") +
                              attribute.values[0]);
        }
    }
    std::vector<size_t> maps;
    for (size_t i = 0; i < store.arrays.size(); ++i)
    {
        const auto &array = store.arrays[i];
        if (array.isData && array.error.empty() && !array.isString &&
            array.dimensions.size() >= 2 && bounds.count(array.fullName) == 0)
            maps.push_back(i);
    }
    return maps;
}

// Whether rows along this dimension go from south to north. Such rasters are
// turned: they are slow or upside down in many programs.
bool RunsNorth(const GDALDimension &rows)
{
    const bool isY = rows.GetType() == GDAL_DIM_TYPE_HORIZONTAL_Y;
    if (!isY && !rows.GetType().empty())
        return false;
    const auto variable = rows.GetIndexingVariable();
    if (!variable || rows.GetSize() < 2 ||
        variable->GetDataType().GetClass() != GEDTC_NUMERIC)
        return false;
    double start = 0;
    double step = 0;
    if (variable->IsRegularlySpaced(start, step))
        return step > 0;
    const GUInt64 first = 0;
    const size_t two = 2;
    const auto apart = static_cast<GInt64>(rows.GetSize() - 1);
    double ends[2] = {0, 0};
    return isY &&
           variable->Read(&first, &two, &apart, nullptr,
                          GDALExtendedDataType::Create(GDT_Float64), ends) &&
           ends[0] < ends[1];
}

// What the indices along a dimension are called; none without a coordinate.
std::vector<std::string> Labels(const OpenStore &store, size_t array,
                                size_t axis)
{
    Text error;
    const Text json(mr_labels(store.Handle(), array, axis, error.out()));
    std::vector<std::string> labels;
    CPLJSONDocument document;
    // A coordinate that can't be read is no reason not to show the array.
    if (json && document.LoadMemory(std::string(json.get())))
    {
        for (const auto &label : document.GetRoot().GetArray("labels"))
            labels.push_back(label.ToString());
    }
    return labels;
}

// Names bands by what the dimensions before y and x are in them: description
// "sst time=1981-09-30T12:00:00", and one metadata item for each dimension.
void NameBands(GDALDataset &dataset, const OpenStore &store, size_t number,
               const std::vector<uint64_t> &indices, size_t left)
{
    const ArrayInfo &info = store.arrays[number];

    struct Leading
    {
        std::string name;
        std::vector<std::string> labels;
        GUInt64 size;
        // UINT64_MAX: it varies by band.
        uint64_t index;
    };

    std::vector<Leading> leading;
    size_t open = 0;
    for (size_t a = 0; a < info.dimensions.size(); ++a)
    {
        const auto &dimension = store.dimensions[info.dimensions[a]];
        const uint64_t index = a < indices.size() ? indices[a] : UINT64_MAX;
        if (index == UINT64_MAX && ++open + 2 > left)
            continue;
        leading.push_back(
            {dimension.name, Labels(store, number, a), dimension.size, index});
    }
    const std::string own =
        info.fullName.substr(info.fullName.find_last_of('/') + 1);
    for (int b = 0; b < dataset.GetRasterCount(); ++b)
    {
        std::string text;
        CPLStringList items;
        auto rest = static_cast<uint64_t>(b);
        for (size_t i = leading.size(); i-- > 0;)
        {
            const auto &one = leading[i];
            uint64_t index = one.index;
            if (index == UINT64_MAX)
            {
                index = rest % one.size;
                rest /= one.size;
            }
            const bool named = index < one.labels.size();
            const std::string label =
                named ? one.labels[index] : std::to_string(index);
            text = " " + one.name + (named ? "=" : ":") + label + text;
            if (named)
                items.SetNameValue(one.name.c_str(), label.c_str());
        }
        GDALRasterBand *band = dataset.GetRasterBand(b + 1);
        if (text.empty())
            continue;
        band->SetDescription((own + text).c_str());
        for (const char *item : items)
        {
            char *key = nullptr;
            const char *value = CPLParseNameValue(item, &key);
            if (key && value)
                band->SetMetadataItem(key, value);
            CPLFree(key);
        }
    }
    // Nothing of this is to be saved beside the store.
    if (auto pam = dynamic_cast<GDALPamDataset *>(&dataset))
        pam->SetPamFlags(pam->GetPamFlags() & ~GPF_DIRTY);
}

// One array as bands: the last two dimensions that `indices` (UINT64_MAX: none)
// leaves are y and x, north up.
GDALDataset *OpenBands(const std::shared_ptr<OpenStore> &store, size_t number,
                       const std::vector<uint64_t> &indices)
{
    const ArrayInfo &info = store->arrays[number];
    const size_t rank = info.dimensions.size();
    if (!info.error.empty())
    {
        CPLError(CE_Failure, CPLE_AppDefined, "%s", info.error.c_str());
        return nullptr;
    }
    const auto isFixed = [&indices](size_t a)
    { return a < indices.size() && indices[a] != UINT64_MAX; };
    size_t left = rank;
    for (size_t a = 0; a < rank; ++a)
        left -= isFixed(a) ? 1 : 0;
    if (info.isString || left < 1)
    {
        CPLError(
            CE_Failure, CPLE_AppDefined,
            "MDIMREFS: array %s of %d dimensions can't be shown as bands%s",
            info.fullName.c_str(), static_cast<int>(rank),
            left < rank ? " with these indices" : "");
        return nullptr;
    }
    GUInt64 bands = 1;
    std::string view = "[";
    size_t open = 0;
    for (size_t a = 0; a < rank; ++a)
    {
        const GUInt64 size = store->dimensions[info.dimensions[a]].size;
        if (isFixed(a))
            view += std::to_string(indices[a]);
        else
        {
            view += ":";
            if (++open + 2 <= left)
                bands = size != 0 && bands > MAX_BANDS / size ? MAX_BANDS + 1
                                                              : bands * size;
        }
        view += a + 1 < rank ? "," : "]";
    }
    if (bands > MAX_BANDS)
    {
        CPLError(
            CE_Failure, CPLE_AppDefined,
            "MDIMREFS: array %s has more than %d slices: name one by its index in the first dimension, as %s:0",
            info.fullName.c_str(), static_cast<int>(MAX_BANDS),
            SubdatasetName(*store, info).c_str());
        return nullptr;
    }
    std::shared_ptr<GDALMDArray> array = store->GetArray(number);
    if (left < rank)
        array = array->GetView(view);
    if (!array)
        return nullptr;
    const auto named = [&](GDALDataset *dataset)
    {
        if (dataset)
            NameBands(*dataset, *store, number, indices, left);
        return dataset;
    };
    if (left == 1)
        return named(array->AsClassicDataset(0, 0, store->RootGroup()));
    if (RunsNorth(*array->GetDimensions()[left - 2]))
    {
        std::string flip = "[";
        for (size_t a = 0; a < left; ++a)
            flip += std::string(a + 2 == left ? "::-1" : ":") +
                    (a + 1 < left ? "," : "]");
        array = array->GetView(flip);
        if (!array)
            return nullptr;
    }
    return named(
        array->AsClassicDataset(left - 1, left - 2, store->RootGroup()));
}

GDALDataset *OpenClassic(const std::shared_ptr<OpenStore> &store,
                         const std::string &rest)
{
    store->unpackCoordinates = true;
    if (!rest.empty())
    {
        std::vector<uint64_t> indices;
        const int number = store->Select(rest, indices);
        return number < 0
                   ? nullptr
                   : OpenBands(store, static_cast<size_t>(number), indices);
    }
    const auto maps = Maps(*store);
    if (maps.size() == 1)
        return OpenBands(store, maps[0], {});
    auto dataset = std::make_unique<Dataset>(store);
    CPLStringList list;
    int number = 0;
    for (size_t i : maps)
    {
        const auto &array = store->arrays[i];
        ++number;
        std::string size;
        for (size_t d : array.dimensions)
            size += (size.empty() ? "" : "x") +
                    std::to_string(store->dimensions[d].size);
        list.SetNameValue(CPLSPrintf("SUBDATASET_%d_NAME", number),
                          SubdatasetName(*store, array).c_str());
        list.SetNameValue(
            CPLSPrintf("SUBDATASET_%d_DESC", number),
            CPLSPrintf("[%s] %s (%s)", size.c_str(), array.fullName.c_str(),
                       GDALGetDataTypeName(array.type.GetNumericDataType())));
    }
    dataset->SetMetadata(list.List(), "SUBDATASETS");
    return dataset.release();
}

bool CheckOptions(CSLConstList options)
{
    for (const char *key : {"VERIFY", "MISSING_SOURCE", "VERIFY_CHECKSUM",
                            "NUM_THREADS", "CACHE_SIZE"})
    {
        const char *value = CSLFetchNameValue(options, key);
        if (value && *value == '\0')
        {
            CPLError(CE_Failure, CPLE_IllegalArg,
                     "MDIMREFS: open option %s has no value", key);
            return false;
        }
    }
    return true;
}

GDALDataset *Open(GDALOpenInfo *info)
{
    if (info->eAccess == GA_Update)
    {
        CPLError(CE_Failure, CPLE_NotSupported,
                 "MDIMREFS: update is not supported");
        return nullptr;
    }
    const int kinds = info->nOpenFlags & (GDAL_OF_RASTER | GDAL_OF_VECTOR |
                                          GDAL_OF_MULTIDIM_RASTER);
    const bool prefixed = STARTS_WITH_CI(info->pszFilename, PREFIX);
    if (!CheckOptions(info->papszOpenOptions))
        return nullptr;
    std::string path = info->pszFilename;
    std::string rest;
    if (prefixed)
    {
        Text pathText;
        Text restText;
        Text error;
        if (!mr_split_name(info->pszFilename, pathText.out(), restText.out(),
                           error.out()))
        {
            Raise(error);
            return nullptr;
        }
        path = pathText.get();
        rest = restText.get();
    }
    const auto store = OpenStore::Open(path, info->papszOpenOptions);
    if (!store)
        return nullptr;
    // Both kinds at once confuse `gdal info`: multidimensional comes first, if
    // it was asked for.
    if (kinds & GDAL_OF_MULTIDIM_RASTER)
    {
        if (!rest.empty())
        {
            std::vector<uint64_t> indices;
            if (store->Select(rest, indices) < 0)
                return nullptr;
        }
        auto dataset = std::make_unique<Dataset>(store);
        dataset->ShowGroup();
        dataset->SetDescription(info->pszFilename);
        return dataset.release();
    }
    if (!(kinds & GDAL_OF_RASTER) && kinds != 0)
    {
        if (!rest.empty())
        {
            CPLError(CE_Failure, CPLE_AppDefined,
                     "MDIMREFS: %s: layers are not named: open the store alone",
                     info->pszFilename);
            return nullptr;
        }
        auto dataset = std::make_unique<Dataset>(store);
        dataset->ShowLayers();
        dataset->SetDescription(info->pszFilename);
        return dataset.release();
    }
    GDALDataset *dataset = OpenClassic(store, rest);
    if (dataset)
        dataset->SetDescription(info->pszFilename);
    return dataset;
}

class Subdataset final : public GDALSubdatasetInfo
{
  public:
    explicit Subdataset(const std::string &name) : GDALSubdatasetInfo(name)
    {
    }

  private:
    void parseFileName() override
    {
        if (!STARTS_WITH_CI(m_fileName.c_str(), PREFIX))
            return;
        Text path;
        Text rest;
        Text error;
        if (!mr_split_name(m_fileName.c_str(), path.out(), rest.out(),
                           error.out()))
            return;
        m_driverPrefixComponent = "MDIMREFS";
        m_cleanedPathComponent = path.get();
        m_isQuoted = m_fileName.size() > strlen(PREFIX) &&
                     m_fileName[strlen(PREFIX)] == '"';
        m_pathComponent =
            m_isQuoted ? quote(m_cleanedPathComponent) : m_cleanedPathComponent;
        m_subdatasetComponent = rest.get();
    }
};

} // namespace

GDALDataset *OpenDataset(GDALOpenInfo *info)
{
    return Guarded([&] { return Open(info); },
                   static_cast<GDALDataset *>(nullptr));
}

GDALSubdatasetInfo *SubdatasetInfo(const char *name)
{
    return Guarded(
        [&]() -> GDALSubdatasetInfo *
        {
            if (!STARTS_WITH_CI(name, PREFIX))
                return nullptr;
            auto info = std::make_unique<Subdataset>(name);
            if (info->GetSubdatasetComponent().empty())
                return nullptr;
            return info.release();
        },
        static_cast<GDALSubdatasetInfo *>(nullptr));
}

} // namespace mdimrefs
