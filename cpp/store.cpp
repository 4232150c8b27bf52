#include "store.hpp"

#include "array.hpp"
#include "group.hpp"

#include <cstring>

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

} // namespace

void ParseNumber(const std::string &text, const GDALExtendedDataType &type,
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
            ParseNumber(noData, info.type, info.noData.data());
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
        info.isGeographic = item.GetBool("is_geographic");
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
    return MakeGroup(shared_from_this(), 0);
}

std::shared_ptr<GDALMDArray> OpenStore::GetArray(size_t number)
{
    {
        const std::lock_guard<std::mutex> lock(m_mutex);
        if (auto array = m_arrays[number].lock())
            return array;
    }
    // Not under the lock: it asks for its dimensions.
    std::shared_ptr<GDALMDArray> array = MakeArray(shared_from_this(), number);
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
        dimension = MakeDimension(shared_from_this(), number);
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
