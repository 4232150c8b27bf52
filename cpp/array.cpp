#include "array.hpp"

#include "attribute.hpp"

#include "ogr_spatialref.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mdimrefs
{

namespace
{

class Array final : public GDALMDArray
{
  public:
    static std::shared_ptr<Array>
    Create(const std::shared_ptr<OpenStore> &store, size_t number)
    {
        auto array = std::shared_ptr<Array>(new Array(store, number));
        array->SetSelf(array);
        return array;
    }

    bool IsWritable() const override
    {
        return false;
    }

    const std::string &GetFilename() const override
    {
        return m_store->path;
    }

    const std::vector<std::shared_ptr<GDALDimension>> &
    GetDimensions() const override
    {
        return m_dimensions;
    }

    const GDALExtendedDataType &GetDataType() const override
    {
        return Info().type;
    }

    std::vector<GUInt64> GetBlockSize() const override
    {
        return Info().blockSize;
    }

    CSLConstList GetStructuralInfo() const override
    {
        return Info().structural.List();
    }

    const std::string &GetUnit() const override
    {
        return Info().unit;
    }

    const void *GetRawNoDataValue() const override
    {
        return Info().noData.empty() ? nullptr : Info().noData.data();
    }

    double GetScale(bool *has, GDALDataType *type) const override
    {
        if (has)
            *has = Info().hasScale;
        if (type)
            *type = Info().scaleType;
        return Info().scale;
    }

    double GetOffset(bool *has, GDALDataType *type) const override
    {
        if (has)
            *has = Info().hasOffset;
        if (type)
            *type = Info().offsetType;
        return Info().offset;
    }

    std::shared_ptr<OGRSpatialReference> GetSpatialRef() const override
    {
        return m_srs;
    }

    std::shared_ptr<GDALAttribute>
    GetAttribute(const std::string &name) const override
    {
        for (const auto &info : Info().attributes)
        {
            if (info.name == name)
                return Guarded([&]
                               { return MakeAttribute(GetFullName(), info); },
                               std::shared_ptr<GDALAttribute>());
        }
        return nullptr;
    }

    std::vector<std::shared_ptr<GDALAttribute>>
    GetAttributes(CSLConstList options) const override
    {
        const bool all = CPLFetchBool(options, "SHOW_ALL", false);
        const auto &hidden = Info().shownElsewhere;
        std::vector<std::shared_ptr<GDALAttribute>> list;
        for (const auto &info : Info().attributes)
        {
            if (all || (std::find(hidden.begin(), hidden.end(), info.name) ==
                            hidden.end() &&
                        !(m_srs && info.name == "grid_mapping")))
                list.push_back(MakeAttribute(GetFullName(), info));
        }
        return list;
    }

    std::vector<std::shared_ptr<GDALMDArray>>
    GetCoordinateVariables() const override
    {
        std::vector<std::shared_ptr<GDALMDArray>> list;
        for (size_t number : Info().coordinates)
            list.push_back(m_store->GetArray(number));
        return list;
    }

#if GDAL_VERSION_NUM >= GDAL_COMPUTE_VERSION(3, 13, 0)
    // Without reading the values (GDAL 3.12 always reads them).
    bool IsRegularlySpaced(double &start, double &increment) const override
    {
        if (!Info().regular)
            return GDALMDArray::IsRegularlySpaced(start, increment);
        start = Info().start;
        increment = Info().step;
        return true;
    }
#endif

    std::shared_ptr<GDALGroup> GetRootGroup() const override
    {
        return m_store->RootGroup();
    }

    bool GetRawBlockInfo(const uint64_t *key,
                         GDALMDArrayRawBlockInfo &info) const override
    {
        return Guarded([&] { return RawBlockInfo(key, info); }, false);
    }

  protected:
    bool IsCacheable() const override
    {
        return false;
    }

    bool IAdviseRead(const GUInt64 *start, const size_t *count,
                     CSLConstList) const override
    {
        if (Info().isString)
            return true;
        Text error;
        std::vector<uint64_t> first(start, start + m_dimensions.size());
        if (mr_advise(m_store->Handle(), m_number, first.data(), count,
                      m_dimensions.size(), error.out()))
            return true;
        Raise(error);
        return false;
    }

    bool IRead(const GUInt64 *start, const size_t *count, const GInt64 *step,
               const GPtrDiff_t *stride, const GDALExtendedDataType &bufferType,
               void *buffer) const override
    {
        return Guarded(
            [&]
            {
                if (!Info().error.empty())
                {
                    CPLError(CE_Failure, CPLE_AppDefined, "%s",
                             Info().error.c_str());
                    return false;
                }
                if (Info().isString)
                    return ReadStrings(start, count, step, stride, bufferType,
                                       buffer);
                return ReadNumbers(start, count, step, stride, bufferType,
                                   buffer);
            },
            false);
    }

  private:
    Array(const std::shared_ptr<OpenStore> &store, size_t number)
        : GDALAbstractMDArray(store->arrays[number].parent,
                              store->arrays[number].name),
          GDALMDArray(store->arrays[number].parent, store->arrays[number].name,
                      store->context),
          m_store(store),
          m_number(number)
    {
        for (size_t d : Info().dimensions)
            m_dimensions.push_back(store->GetDimension(d));
        m_srs = FindSpatialRef();
    }

    // The plan's SRS, else that of the CF grid mapping.
    std::shared_ptr<OGRSpatialReference> FindSpatialRef() const
    {
        const auto rank = static_cast<int>(Info().dimensions.size());
        auto srs = std::make_shared<OGRSpatialReference>();
        if (!Info().srs.empty())
        {
            if (srs->importFromWkt(Info().srs.c_str()) != OGRERR_NONE)
                return nullptr;
        }
        // Of a map; GDAL's netCDF driver has none for such arrays, and a
        // conversion is to be the same as the source's.
        else if (Info().isGeographic && m_store->unpackCoordinates)
        {
            if (srs->importFromEPSG(4326) != OGRERR_NONE)
                return nullptr;
        }
        else if (Info().gridMapping < 0 || !ImportGridMapping(*srs))
            return nullptr;
        // Which dimensions are y and x, counted from 1; the last two if nothing
        // says otherwise.
        const bool known = Info().x >= 0 && Info().y >= 0;
        const int y = known ? Info().y + 1 : rank < 2 ? 2 : rank - 1;
        const int x = known ? Info().x + 1 : rank < 2 ? 1 : rank;
        const bool yFirst =
            srs->EPSGTreatsAsLatLong() || srs->EPSGTreatsAsNorthingEasting() ||
            srs->GetDataAxisToSRSAxisMapping() == std::vector<int>{2, 1};
        srs->SetDataAxisToSRSAxisMapping(yFirst ? std::vector<int>{y, x}
                                                : std::vector<int>{x, y});
        return srs;
    }

    bool ImportGridMapping(OGRSpatialReference &srs) const
    {
        const auto &mapping =
            m_store->arrays[static_cast<size_t>(Info().gridMapping)];
        CPLStringList pairs;
        for (const auto &attribute : mapping.attributes)
        {
            std::string value;
            for (const auto &item : attribute.values)
                value += (value.empty() ? "" : ",") + item;
            if (attribute.values.size() != 1)
                value = "{" + value + "}";
            pairs.SetNameValue(attribute.name.c_str(), value.c_str());
        }
        std::string unit;
        if (Info().x >= 0)
        {
            const int variable =
                m_store
                    ->dimensions[Info()
                                     .dimensions[static_cast<size_t>(Info().x)]]
                    .variable;
            if (variable >= 0)
                unit = m_store->arrays[static_cast<size_t>(variable)].unit;
        }
        CPLErrorStateBackuper quiet(CPLQuietErrorHandler);
        // The code of a GeoTIFF's system, where CF has the WKT.
        const std::string reference =
            pairs.FetchNameValueDef("spatial_ref", "");
        if (STARTS_WITH_CI(reference.c_str(), "EPSG:"))
            return srs.importFromEPSG(atoi(reference.c_str() + 5)) ==
                   OGRERR_NONE;
        return srs.importFromCF1(pairs.List(),
                                 unit.empty() ? nullptr : unit.c_str()) ==
                   OGRERR_NONE &&
               !srs.IsEmpty();
    }

    const ArrayInfo &Info() const
    {
        return m_store->arrays[m_number];
    }

    bool Read(const GUInt64 *start, const size_t *count, const GInt64 *step,
              const std::vector<ptrdiff_t> &strides, void *out) const
    {
        const size_t rank = m_dimensions.size();
        const std::vector<uint64_t> first(start, start + rank);
        const std::vector<int64_t> steps(step, step + rank);
        Text error;
        if (mr_read(m_store->Handle(), m_number, first.data(), count,
                    steps.data(), strides.data(), rank, out, error.out()))
            return true;
        Raise(error);
        return false;
    }

    bool ReadNumbers(const GUInt64 *start, const size_t *count,
                     const GInt64 *step, const GPtrDiff_t *stride,
                     const GDALExtendedDataType &bufferType, void *buffer) const
    {
        const size_t rank = m_dimensions.size();
        const auto item = static_cast<ptrdiff_t>(Info().type.GetSize());
        std::vector<ptrdiff_t> strides(rank);
        if (bufferType == Info().type)
        {
            for (size_t a = 0; a < rank; ++a)
                strides[a] = static_cast<ptrdiff_t>(stride[a]) * item;
            return Read(start, count, step, strides, buffer);
        }
        if (bufferType.GetClass() == GEDTC_COMPOUND)
        {
            CPLError(CE_Failure, CPLE_NotSupported,
                     "MDIMREFS: array %s can't be read as a compound type",
                     GetFullName().c_str());
            return false;
        }
        // Another type: a part at a time into a buffer of our own, split along
        // the first axis that is long enough.
        size_t total = 1;
        for (size_t a = 0; a < rank; ++a)
        {
            if (count[a] != 0 &&
                total > std::numeric_limits<size_t>::max() / 16 / count[a])
            {
                CPLError(CE_Failure, CPLE_OutOfMemory,
                         "MDIMREFS: the window of array %s is too large",
                         GetFullName().c_str());
                return false;
            }
            total *= count[a];
        }
        if (total == 0)
            return true;
        constexpr size_t MAX_ELEMENTS = 4 * 1024 * 1024;
        if (total > MAX_ELEMENTS)
        {
            for (size_t a = 0; a < rank; ++a)
            {
                if (count[a] < 2)
                    continue;
                // Whole blocks, so that none is decoded twice.
                const auto block = std::max<GUInt64>(
                    1, a < Info().blockSize.size() ? Info().blockSize[a] : 1);
                size_t half = count[a] / 2;
                const auto over =
                    static_cast<size_t>((start[a] + half) % block);
                if (half > over && step[a] == 1)
                    half -= over;
                std::vector<GUInt64> first(start, start + rank);
                std::vector<size_t> part(count, count + rank);
                part[a] = half;
                if (!ReadNumbers(first.data(), part.data(), step, stride,
                                 bufferType, buffer))
                    return false;
                first[a] =
                    static_cast<GUInt64>(static_cast<GInt64>(first[a]) +
                                         static_cast<GInt64>(half) * step[a]);
                part[a] = count[a] - half;
                GByte *rest = static_cast<GByte *>(buffer) +
                              static_cast<GPtrDiff_t>(half) * stride[a] *
                                  static_cast<GPtrDiff_t>(bufferType.GetSize());
                return ReadNumbers(first.data(), part.data(), step, stride,
                                   bufferType, rest);
            }
        }
        std::vector<GByte> temporary(total * static_cast<size_t>(item));
        ptrdiff_t next = item;
        for (size_t a = rank; a-- > 0;)
        {
            strides[a] = next;
            next *= static_cast<ptrdiff_t>(count[a]);
        }
        if (!Read(start, count, step, strides, temporary.data()))
            return false;
        const size_t row = rank ? count[rank - 1] : 1;
        const auto bufferItem = static_cast<GPtrDiff_t>(bufferType.GetSize());
        const GPtrDiff_t rowStride =
            rank ? stride[rank - 1] * bufferItem : bufferItem;
        std::vector<size_t> at(rank);
        for (size_t done = 0; done < total; done += row)
        {
            GPtrDiff_t to = 0;
            for (size_t a = 0; a + 1 < rank; ++a)
                to += static_cast<GPtrDiff_t>(at[a]) * stride[a] * bufferItem;
            GByte *target = static_cast<GByte *>(buffer) + to;
            const GByte *source =
                temporary.data() + done * static_cast<size_t>(item);
            if (bufferType.GetClass() == GEDTC_NUMERIC &&
                rowStride <= std::numeric_limits<int>::max() &&
                rowStride >= std::numeric_limits<int>::min())
            {
                GDALCopyWords64(source, Info().type.GetNumericDataType(),
                                static_cast<int>(item), target,
                                bufferType.GetNumericDataType(),
                                static_cast<int>(rowStride),
                                static_cast<GPtrDiff_t>(row));
            }
            else
            {
                for (size_t i = 0; i < row; ++i)
                    GDALExtendedDataType::CopyValue(
                        source + i * static_cast<size_t>(item), Info().type,
                        target + static_cast<GPtrDiff_t>(i) * rowStride,
                        bufferType);
            }
            for (size_t a = rank > 0 ? rank - 1 : 0; a-- > 0;)
            {
                if (++at[a] < count[a])
                    break;
                at[a] = 0;
            }
        }
        return true;
    }

    struct StringTarget
    {
        const size_t *count;
        const GPtrDiff_t *stride;
        size_t rank;
        const GDALExtendedDataType *source;
        const GDALExtendedDataType *type;
        GByte *buffer;
    };

    static void PutString(void *user, size_t index, const char *text)
    {
        const auto *target = static_cast<StringTarget *>(user);
        GPtrDiff_t to = 0;
        for (size_t a = target->rank; a-- > 0;)
        {
            to += static_cast<GPtrDiff_t>(index % target->count[a]) *
                  target->stride[a];
            index /= target->count[a];
        }
        GByte *out = target->buffer +
                     to * static_cast<GPtrDiff_t>(target->type->GetSize());
        GDALExtendedDataType::CopyValue(&text, *target->source, out,
                                        *target->type);
    }

    bool ReadStrings(const GUInt64 *start, const size_t *count,
                     const GInt64 *step, const GPtrDiff_t *stride,
                     const GDALExtendedDataType &bufferType, void *buffer) const
    {
        const size_t rank = m_dimensions.size();
        const std::vector<uint64_t> first(start, start + rank);
        const std::vector<int64_t> steps(step, step + rank);
        StringTarget target{count,       stride,
                            rank,        &Info().type,
                            &bufferType, static_cast<GByte *>(buffer)};
        Text error;
        if (mr_read_strings(m_store->Handle(), m_number, first.data(), count,
                            steps.data(), rank, PutString, &target,
                            error.out()))
            return true;
        Raise(error);
        return false;
    }

    bool RawBlockInfo(const uint64_t *key, GDALMDArrayRawBlockInfo &info) const
    {
        info.clear();
        Text error;
        MrRawChunk chunk{};
        if (!mr_raw_chunk(m_store->Handle(), m_number, key, m_dimensions.size(),
                          &chunk, error.out()))
        {
            Raise(error);
            return false;
        }
        if (chunk.state == 1)
        {
            info.pszFilename = CPLStrdup(chunk.path);
            info.nOffset = chunk.offset;
            info.nSize = chunk.size;
        }
        else if (chunk.state == 2)
        {
            info.nSize = chunk.length;
            info.pabyInlineData = static_cast<GByte *>(
                VSI_MALLOC_VERBOSE(std::max<size_t>(1, chunk.length)));
            if (info.pabyInlineData)
                memcpy(info.pabyInlineData, chunk.data, chunk.length);
        }
        if (chunk.state != 0)
        {
            const CPLStringList items(
                chunk.info
                    ? CSLTokenizeString2(chunk.info, ";", CSLT_STRIPLEADSPACES)
                    : CSLDuplicate(Info().structural.List()));
            info.papszInfo = CSLDuplicate(items.List());
        }
        const bool complete =
            chunk.state != 2 || info.pabyInlineData != nullptr;
        mr_raw_chunk_free(&chunk);
        return complete;
    }

    std::shared_ptr<OpenStore> m_store;
    size_t m_number;
    std::vector<std::shared_ptr<GDALDimension>> m_dimensions;
    std::shared_ptr<OGRSpatialReference> m_srs;
};

} // namespace

std::shared_ptr<GDALMDArray> MakeArray(const std::shared_ptr<OpenStore> &store,
                                       size_t number)
{
    return Array::Create(store, number);
}

} // namespace mdimrefs
