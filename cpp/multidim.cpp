#include "multidim.hpp"

#include "ogr_spatialref.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

namespace mdimrefs
{

namespace
{

GDALExtendedDataType TypeOf(const std::string &name)
{
    if (name == "String")
        return GDALExtendedDataType::CreateString();
    return GDALExtendedDataType::Create(GDALGetDataTypeByName(name.c_str()));
}

std::vector<AttributeInfo> ReadAttributes(const CPLJSONArray &list)
{
    std::vector<AttributeInfo> attributes;
    for (const auto &item : list)
    {
        AttributeInfo info;
        info.name = item.GetString("name");
        info.type = TypeOf(item.GetString("type"));
        for (const auto &size : item.GetArray("shape"))
            info.shape.push_back(static_cast<GUInt64>(size.ToLong()));
        for (const auto &value : item.GetArray("values"))
            info.values.push_back(value.ToString());
        attributes.push_back(std::move(info));
    }
    return attributes;
}

// A value written as text into one element of a type.
void Parse(const std::string &text, const GDALExtendedDataType &type,
           GByte *out)
{
    const GDALDataType numeric = type.GetNumericDataType();
    if (numeric == GDT_Int64)
    {
        const auto value =
            static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10));
        memcpy(out, &value, sizeof(value));
    }
    else if (numeric == GDT_UInt64)
    {
        const auto value =
            static_cast<uint64_t>(std::strtoull(text.c_str(), nullptr, 10));
        memcpy(out, &value, sizeof(value));
    }
    else
    {
        const double value = CPLAtof(text.c_str());
        GDALCopyWords64(&value, GDT_Float64, 0, out, numeric, 0, 1);
    }
}

// An attribute, whose values are at hand.
class Attribute final : public GDALAttribute
{
  public:
    Attribute(const std::string &parent, const AttributeInfo &info)
        : GDALAbstractMDArray(parent, info.name),
          GDALAttribute(parent, info.name),
          m_type(info.type),
          m_texts(info.values)
    {
        for (size_t i = 0; i < info.shape.size(); ++i)
            m_dimensions.push_back(std::make_shared<GDALDimension>(
                std::string(), "dim" + std::to_string(i), std::string(),
                std::string(), info.shape[i]));
        if (m_type.GetClass() == GEDTC_NUMERIC)
        {
            const size_t size = m_type.GetSize();
            m_numbers.resize(m_texts.size() * size);
            for (size_t i = 0; i < m_texts.size(); ++i)
                Parse(m_texts[i], m_type, m_numbers.data() + i * size);
        }
    }

    const std::vector<std::shared_ptr<GDALDimension>> &
    GetDimensions() const override
    {
        return m_dimensions;
    }

    const GDALExtendedDataType &GetDataType() const override
    {
        return m_type;
    }

  protected:
    bool IRead(const GUInt64 *start, const size_t *count, const GInt64 *step,
               const GPtrDiff_t *stride, const GDALExtendedDataType &bufferType,
               void *buffer) const override
    {
        return Guarded(
            [&]
            {
                size_t total = 1;
                for (size_t a = 0; a < m_dimensions.size(); ++a)
                    total *= count[a];
                std::vector<size_t> at(m_dimensions.size());
                for (size_t n = 0; n < total; ++n)
                {
                    GInt64 from = 0;
                    GPtrDiff_t to = 0;
                    for (size_t a = 0; a < at.size(); ++a)
                    {
                        from = from * static_cast<GInt64>(
                                          m_dimensions[a]->GetSize()) +
                               static_cast<GInt64>(start[a]) +
                               static_cast<GInt64>(at[a]) * step[a];
                        to += static_cast<GPtrDiff_t>(at[a]) * stride[a];
                    }
                    GByte *target =
                        static_cast<GByte *>(buffer) +
                        to * static_cast<GPtrDiff_t>(bufferType.GetSize());
                    if (static_cast<size_t>(from) >= m_texts.size())
                        return false;
                    if (m_type.GetClass() == GEDTC_NUMERIC)
                    {
                        const GByte *source =
                            m_numbers.data() +
                            static_cast<size_t>(from) * m_type.GetSize();
                        GDALExtendedDataType::CopyValue(source, m_type, target,
                                                        bufferType);
                    }
                    else
                    {
                        const char *text =
                            m_texts[static_cast<size_t>(from)].c_str();
                        GDALExtendedDataType::CopyValue(&text, m_type, target,
                                                        bufferType);
                    }
                    for (size_t a = at.size(); a-- > 0;)
                    {
                        if (++at[a] < count[a])
                            break;
                        at[a] = 0;
                    }
                }
                return true;
            },
            false);
    }

  private:
    GDALExtendedDataType m_type;
    std::vector<std::string> m_texts;
    std::vector<GByte> m_numbers;
    std::vector<std::shared_ptr<GDALDimension>> m_dimensions;
};

std::vector<std::shared_ptr<GDALAttribute>>
MakeAttributes(const std::string &parent,
               const std::vector<AttributeInfo> &list)
{
    std::vector<std::shared_ptr<GDALAttribute>> attributes;
    for (const auto &info : list)
        attributes.push_back(std::make_shared<Attribute>(parent, info));
    return attributes;
}

// A dimension; it finds its variable when asked.
class Dimension final : public GDALDimension
{
  public:
    Dimension(std::shared_ptr<OpenStore> store, const DimensionInfo &info)
        : GDALDimension(info.parent, info.name, info.type, info.direction,
                        info.size),
          m_store(std::move(store)),
          m_variable(info.variable)
    {
    }

    std::shared_ptr<GDALMDArray> GetIndexingVariable() const override
    {
        return Guarded(
            [&]() -> std::shared_ptr<GDALMDArray>
            {
                if (m_variable < 0)
                    return nullptr;
                const auto number = static_cast<size_t>(m_variable);
                auto array = m_store->GetArray(number);
                const auto &info = m_store->arrays[number];
                return m_store->unpackCoordinates &&
                               (info.hasScale || info.hasOffset)
                           ? array->GetUnscaled()
                           : array;
            },
            std::shared_ptr<GDALMDArray>());
    }

  private:
    std::shared_ptr<OpenStore> m_store;
    int m_variable;
};

} // namespace

// An array of the store.
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
                return Guarded([&] { return MakeAttribute(info); },
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
                list.push_back(MakeAttribute(info));
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

    bool IsRegularlySpaced(double &start, double &increment) const override
    {
        if (!Info().regular)
            return GDALMDArray::IsRegularlySpaced(start, increment);
        start = Info().start;
        increment = Info().step;
        return true;
    }

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

    std::shared_ptr<GDALAttribute>
    MakeAttribute(const AttributeInfo &info) const
    {
        return std::make_shared<Attribute>(GetFullName(), info);
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

// A group of the store.
class Group final : public GDALGroup
{
  public:
    static std::shared_ptr<Group>
    Create(const std::shared_ptr<OpenStore> &store, size_t number)
    {
        auto group = std::shared_ptr<Group>(new Group(store, number));
        group->SetSelf(group);
        return group;
    }

    std::vector<std::string> GetMDArrayNames(CSLConstList) const override
    {
        std::vector<std::string> names;
        for (const auto &array : m_store->arrays)
        {
            if (array.parent == GetFullName())
                names.push_back(array.name);
        }
        return names;
    }

    std::shared_ptr<GDALMDArray> OpenMDArray(const std::string &name,
                                             CSLConstList) const override
    {
        for (size_t i = 0; i < m_store->arrays.size(); ++i)
        {
            const auto &array = m_store->arrays[i];
            if (array.parent == GetFullName() && array.name == name)
            {
                if (!array.error.empty())
                {
                    CPLError(CE_Failure, CPLE_AppDefined, "%s",
                             array.error.c_str());
                    return nullptr;
                }
                return Guarded([&] { return m_store->GetArray(i); },
                               std::shared_ptr<GDALMDArray>());
            }
        }
        // Silent: GDAL looks for arrays in several places.
        return nullptr;
    }

    std::vector<std::string> GetGroupNames(CSLConstList) const override
    {
        std::vector<std::string> names;
        for (const auto &group : m_store->groups)
        {
            if (group.fullName != "/" && group.parent == GetFullName())
                names.push_back(group.name);
        }
        return names;
    }

    std::shared_ptr<GDALGroup> OpenGroup(const std::string &name,
                                         CSLConstList) const override
    {
        for (size_t i = 0; i < m_store->groups.size(); ++i)
        {
            const auto &group = m_store->groups[i];
            if (group.fullName != "/" && group.parent == GetFullName() &&
                group.name == name)
                return Guarded([&] { return Create(m_store, i); },
                               std::shared_ptr<Group>());
        }
        return nullptr;
    }

    std::vector<std::shared_ptr<GDALDimension>>
    GetDimensions(CSLConstList) const override
    {
        std::vector<std::shared_ptr<GDALDimension>> list;
        for (size_t i = 0; i < m_store->dimensions.size(); ++i)
        {
            if (m_store->dimensions[i].parent == GetFullName())
                list.push_back(m_store->GetDimension(i));
        }
        return list;
    }

    std::shared_ptr<GDALAttribute>
    GetAttribute(const std::string &name) const override
    {
        return GetAttributeFromAttributes(name);
    }

    std::vector<std::shared_ptr<GDALAttribute>>
    GetAttributes(CSLConstList) const override
    {
        return MakeAttributes(GetFullName() == "/" ? "/_GLOBAL_"
                                                   : GetFullName(),
                              m_store->groups[m_number].attributes);
    }

  private:
    Group(const std::shared_ptr<OpenStore> &store, size_t number)
        : GDALGroup(store->groups[number].parent, store->groups[number].name,
                    store->context),
          m_store(store),
          m_number(number)
    {
    }

    std::shared_ptr<OpenStore> m_store;
    size_t m_number;
};

OpenStore::~OpenStore()
{
    mr_close(m_store);
}

std::shared_ptr<OpenStore> OpenStore::Open(const std::string &path,
                                           CSLConstList options)
{
    auto store = std::make_shared<OpenStore>();
    store->path = path;
    Text error;
    store->m_store = mr_open(path.c_str(), options, error.out());
    if (!store->m_store)
    {
        Raise(error);
        return nullptr;
    }
    return store->Describe() ? store : nullptr;
}

bool OpenStore::Describe()
{
    Text error;
    const Text json(mr_describe(m_store, error.out()));
    CPLJSONDocument document;
    if (!json || !document.LoadMemory(std::string(json.get())))
    {
        Raise(error);
        return false;
    }
    const CPLJSONObject root = document.GetRoot();
    context = root.GetString("context");
    for (const auto &item : root.GetArray("groups"))
    {
        GroupInfo info;
        info.parent = item.GetString("parent");
        info.name = item.GetString("name");
        info.fullName = item.GetString("full_name");
        info.attributes = ReadAttributes(item.GetArray("attributes"));
        groups.push_back(std::move(info));
    }
    for (const auto &item : root.GetArray("dimensions"))
    {
        DimensionInfo info;
        info.parent = item.GetString("parent");
        info.name = item.GetString("name");
        info.fullName = item.GetString("full_name");
        info.type = item.GetString("type");
        info.direction = item.GetString("direction");
        info.size = static_cast<GUInt64>(item.GetLong("size"));
        info.variable = item.GetInteger("variable", -1);
        dimensions.push_back(std::move(info));
    }
    for (const auto &item : root.GetArray("arrays"))
    {
        ArrayInfo info;
        info.parent = item.GetString("parent");
        info.name = item.GetString("name");
        info.fullName = item.GetString("full_name");
        info.error = item.GetString("error");
        for (const auto &d : item.GetArray("dimensions"))
            info.dimensions.push_back(static_cast<size_t>(d.ToInteger()));
        for (const auto &size : item.GetArray("block_size"))
            info.blockSize.push_back(static_cast<GUInt64>(size.ToLong()));
        info.type = TypeOf(item.GetString("type"));
        info.isString = info.type.GetClass() == GEDTC_STRING;
        info.isData = item.GetBool("is_data");
        info.attributes = ReadAttributes(item.GetArray("attributes"));
        for (const auto &name : item.GetArray("shown_elsewhere"))
            info.shownElsewhere.push_back(name.ToString());
        info.unit = item.GetString("unit");
        const std::string noData = item.GetString("no_data");
        if (!noData.empty() && !info.isString)
        {
            info.noData.resize(info.type.GetSize());
            Parse(noData, info.type, info.noData.data());
        }
        const auto scaling = [&item](const char *key, bool &has, double &value,
                                     GDALDataType &type)
        {
            const CPLJSONObject object = item.GetObj(key);
            if (object.GetType() == CPLJSONObject::Type::Object)
            {
                has = true;
                value = CPLAtof(object.GetString("value").c_str());
                type = GDALGetDataTypeByName(object.GetString("type").c_str());
            }
        };
        scaling("scale", info.hasScale, info.scale, info.scaleType);
        scaling("offset", info.hasOffset, info.offset, info.offsetType);
        info.srs = item.GetString("srs");
        info.x = item.GetInteger("x", -1);
        info.y = item.GetInteger("y", -1);
        const CPLJSONObject affine = item.GetObj("affine");
        if (affine.GetType() == CPLJSONObject::Type::Object)
        {
            info.regular = true;
            info.start = CPLAtof(affine.GetString("start").c_str());
            info.step = CPLAtof(affine.GetString("step").c_str());
        }
        for (const auto &pair : item.GetArray("structural"))
            info.structural.AddString(pair.ToString().c_str());
        info.gridMapping = item.GetInteger("grid_mapping", -1);
        for (const auto &number : item.GetArray("coordinates"))
            info.coordinates.push_back(static_cast<size_t>(number.ToInteger()));
        arrays.push_back(std::move(info));
    }
    return true;
}

std::shared_ptr<GDALGroup> OpenStore::RootGroup()
{
    return Group::Create(shared_from_this(), 0);
}

std::shared_ptr<GDALMDArray> OpenStore::GetArray(size_t number)
{
    {
        const std::lock_guard<std::mutex> lock(m_mutex);
        if (auto array = m_arrays[number].lock())
            return array;
    }
    // Not under the lock: it asks for its dimensions.
    std::shared_ptr<GDALMDArray> array =
        Array::Create(shared_from_this(), number);
    const std::lock_guard<std::mutex> lock(m_mutex);
    if (auto other = m_arrays[number].lock())
        return other;
    m_arrays[number] = array;
    return array;
}

std::shared_ptr<GDALDimension> OpenStore::GetDimension(size_t number)
{
    const std::lock_guard<std::mutex> lock(m_mutex);
    auto dimension = m_dimensions[number].lock();
    if (!dimension)
    {
        dimension =
            std::make_shared<Dimension>(shared_from_this(), dimensions[number]);
        m_dimensions[number] = dimension;
    }
    return dimension;
}

int OpenStore::Select(const std::string &name,
                      std::vector<uint64_t> &indices) const
{
    indices.resize(32);
    size_t count = 0;
    Text error;
    const int array =
        mr_select(m_store, name.c_str(), indices.data(), &count, error.out());
    if (array < 0)
        Raise(error);
    indices.resize(count);
    return array;
}

} // namespace mdimrefs
