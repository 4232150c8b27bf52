// An open store and its metadata, which cross the seam once, when it is opened.
#pragma once

#include "guard.hpp"

#include "cpl_json.h"
#include "gdal_priv.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mdimrefs
{

struct AttributeInfo
{
    std::string name;
    GDALExtendedDataType type = GDALExtendedDataType::CreateString();
    std::vector<GUInt64> shape;
    // As text: numbers exactly.
    std::vector<std::string> values;
};

struct DimensionInfo
{
    std::string parent;
    std::string name;
    std::string fullName;
    std::string type;
    std::string direction;
    GUInt64 size = 0;
    // Number of the array that labels it, or -1.
    int variable = -1;
};

struct ArrayInfo
{
    std::string parent;
    std::string name;
    std::string fullName;
    // Why it can't be read; else empty.
    std::string error;
    std::vector<size_t> dimensions;
    std::vector<GUInt64> blockSize;
    GDALExtendedDataType type = GDALExtendedDataType::CreateString();
    std::vector<AttributeInfo> attributes;
    // Attributes that are listed only if all are asked for.
    std::vector<std::string> shownElsewhere;
    std::string unit;
    std::vector<GByte> noData;
    bool hasScale = false;
    bool hasOffset = false;
    double scale = 1;
    double offset = 0;
    GDALDataType scaleType = GDT_Unknown;
    GDALDataType offsetType = GDT_Unknown;
    std::string srs;
    // Longitudes and latitudes without a grid mapping.
    bool isGeographic = false;
    // Number of the array whose attributes are the CF grid mapping, or -1.
    int gridMapping = -1;
    // Dimensions along y and x, counted from 0, or -1.
    int y = -1;
    int x = -1;
    bool regular = false;
    double start = 0;
    double step = 0;
    bool isData = false;
    bool isString = false;
    CPLStringList structural;
    // Numbers of the arrays that the attribute `coordinates` names.
    std::vector<size_t> coordinates;
};

struct GroupInfo
{
    std::string parent;
    std::string name;
    std::string fullName;
    std::vector<AttributeInfo> attributes;
};

// An open store; what is made of it (groups, arrays, dimensions) keeps it open.
class OpenStore : public std::enable_shared_from_this<OpenStore>
{
  public:
    static std::shared_ptr<OpenStore> Open(const std::string &path,
                                           CSLConstList options);
    ~OpenStore();

    const MrStore *Handle() const
    {
        return m_store;
    }

    std::shared_ptr<GDALGroup> RootGroup();
    std::shared_ptr<GDALMDArray> GetArray(size_t number);
    std::shared_ptr<GDALDimension> GetDimension(size_t number);

    // The array of a name like /sst:29:0, and the index of each dimension or
    // UINT64_MAX; -1 (and an error) if there is none.
    int Select(const std::string &name, std::vector<uint64_t> &indices) const;

    // Whether dimensions are labelled by values with scale and offset applied,
    // as geotransforms need them.
    bool unpackCoordinates = false;
    std::string path;
    std::string context;
    std::vector<GroupInfo> groups;
    std::vector<DimensionInfo> dimensions;
    std::vector<ArrayInfo> arrays;

  private:
    bool Describe();

    MrStore *m_store = nullptr;
    std::mutex m_mutex;
    std::map<size_t, std::weak_ptr<GDALMDArray>> m_arrays;
    std::map<size_t, std::weak_ptr<GDALDimension>> m_dimensions;
};

// A number written as text, as one element of a type.
void ParseNumber(const std::string &text, const GDALExtendedDataType &type,
                 GByte *out);

} // namespace mdimrefs
