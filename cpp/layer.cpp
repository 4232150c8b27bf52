#include "layer.hpp"

#include "ogr_swq.h"

#include <algorithm>
#include <limits>

namespace mdimrefs
{

namespace
{

struct ColumnInfo
{
    std::string name;
    OGRFieldType type = OFTString;
    OGRFieldSubType subType = OFSTNone;
};

std::vector<ColumnInfo> ReadColumns(const CPLJSONArray &list)
{
    std::vector<ColumnInfo> columns;
    for (const auto &item : list)
    {
        ColumnInfo info;
        info.name = item.GetString("name");
        const std::string kind = item.GetString("kind");
        if (kind == "integer")
            info.type = OFTInteger64;
        else if (kind == "boolean")
        {
            info.type = OFTInteger;
            info.subType = OFSTBoolean;
        }
        else if (kind == "real")
            info.type = OFTReal;
        else if (kind == "blob")
            info.type = OFTBinary;
        columns.push_back(std::move(info));
    }
    return columns;
}

// Chunk keys lo .. hi along each dimension.
struct Range
{
    std::vector<uint64_t> lo;
    std::vector<uint64_t> hi;
};

// Narrows the range by a condition on one dimension, `dim_i OP value`.
void Narrow(Range &range, size_t axis, swq_op op, GIntBig value)
{
    if (value < 0)
    {
        // Nothing is below 0; what is above it is all.
        if (op == SWQ_EQ || op == SWQ_LT || op == SWQ_LE)
            range.hi[axis] = 0;
        return;
    }
    const auto key = static_cast<uint64_t>(value);
    if (op == SWQ_EQ || op == SWQ_GE)
        range.lo[axis] = std::max(range.lo[axis], key);
    if (op == SWQ_GT)
        range.lo[axis] = std::max(range.lo[axis], key + 1);
    if (op == SWQ_EQ || op == SWQ_LE)
        range.hi[axis] = std::min(range.hi[axis], key + 1);
    if (op == SWQ_LT)
        range.hi[axis] = std::min(range.hi[axis], key);
}

// Narrows the range by what a filter says of dimensions. Returns whether that
// is all it says; else it is still evaluated on each row.
bool NarrowBy(const swq_expr_node *node, Range &range)
{
    if (!node || node->eNodeType != SNT_OPERATION)
        return false;
    if (node->nOperation == SWQ_AND)
    {
        bool all = true;
        for (int i = 0; i < node->nSubExprCount; ++i)
            all = NarrowBy(node->papoSubExpr[i], range) && all;
        return all;
    }
    const auto isDimension = [&range](const swq_expr_node *n)
    {
        return n->eNodeType == SNT_COLUMN && n->table_index == 0 &&
               n->field_index >= 0 &&
               static_cast<size_t>(n->field_index) < range.lo.size();
    };
    const auto isWhole = [](const swq_expr_node *n)
    {
        return n->eNodeType == SNT_CONSTANT && !n->is_null &&
               (n->field_type == SWQ_INTEGER || n->field_type == SWQ_INTEGER64);
    };
    if (node->nOperation == SWQ_BETWEEN && node->nSubExprCount == 3 &&
        isDimension(node->papoSubExpr[0]) && isWhole(node->papoSubExpr[1]) &&
        isWhole(node->papoSubExpr[2]))
    {
        const auto axis =
            static_cast<size_t>(node->papoSubExpr[0]->field_index);
        Narrow(range, axis, SWQ_GE, node->papoSubExpr[1]->int_value);
        Narrow(range, axis, SWQ_LE, node->papoSubExpr[2]->int_value);
        return true;
    }
    if (node->nSubExprCount != 2)
        return false;
    auto op = static_cast<swq_op>(node->nOperation);
    if (op != SWQ_EQ && op != SWQ_LT && op != SWQ_LE && op != SWQ_GT &&
        op != SWQ_GE)
        return false;
    const swq_expr_node *left = node->papoSubExpr[0];
    const swq_expr_node *right = node->papoSubExpr[1];
    if (isWhole(left) && isDimension(right))
    {
        std::swap(left, right);
        op = op == SWQ_LT   ? SWQ_GT
             : op == SWQ_LE ? SWQ_GE
             : op == SWQ_GT ? SWQ_LT
             : op == SWQ_GE ? SWQ_LE
                            : op;
    }
    if (!isDimension(left) || !isWhole(right))
        return false;
    Narrow(range, static_cast<size_t>(left->field_index), op, right->int_value);
    return true;
}

// Rows of a table, or of a query.
class Layer final : public OGRLayer
{
  public:
    Layer(std::shared_ptr<OpenStore> store, GDALDataset *dataset, int table,
          const std::string &name, const std::vector<ColumnInfo> &columns)
        : m_store(std::move(store)),
          m_dataset(dataset),
          m_table(table),
          m_columns(columns),
          m_definition(new OGRFeatureDefn(name.c_str()))
    {
        m_definition->SetGeomType(wkbNone);
        m_definition->Reference();
        for (const auto &column : columns)
        {
            OGRFieldDefn field(column.name.c_str(), column.type);
            field.SetSubType(column.subType);
            m_definition->AddFieldDefn(&field);
        }
        SetDescription(name.c_str());
    }

    ~Layer() override
    {
        mr_rows_close(m_rows);
        m_definition->Release();
    }

    Layer(const Layer &) = delete;
    Layer &operator=(const Layer &) = delete;

    // For chunks: chunks along each dimension.
    void SetCounts(std::vector<uint64_t> counts)
    {
        m_counts = std::move(counts);
    }

    // For a query: rows that have begun.
    void SetQuery(std::string sql, MrRows *rows)
    {
        m_sql = std::move(sql);
        m_rows = rows;
    }

    using OGRLayer::GetLayerDefn;

    const OGRFeatureDefn *GetLayerDefn() const override
    {
        return m_definition;
    }

    GDALDataset *GetDataset() override
    {
        return m_dataset;
    }

    void ResetReading() override
    {
        mr_rows_close(m_rows);
        m_rows = nullptr;
        m_done = false;
    }

    OGRFeature *GetNextFeature() override
    {
        return Guarded([&] { return Next(); },
                       static_cast<OGRFeature *>(nullptr));
    }

    OGRErr SetAttributeFilter(const char *filter) override
    {
        ResetReading();
        return OGRLayer::SetAttributeFilter(filter);
    }

    GIntBig GetFeatureCount(int force) override
    {
        Range range = All();
        if (!IsListed(range))
            return OGRLayer::GetFeatureCount(force);
        Text error;
        const int64_t count = mr_rows_count(
            m_store->Handle(), static_cast<size_t>(m_table), range.lo.data(),
            range.hi.data(), range.lo.size(), error.out());
        if (count < 0)
            Raise(error);
        return count;
    }

    OGRErr SetNextByIndex(GIntBig index) override
    {
        Range range = All();
        if (!IsListed(range) || index < 0)
            return OGRLayer::SetNextByIndex(index);
        return Guarded(
            [&]
            {
                ResetReading();
                if (!Begin())
                    return OGRERR_FAILURE;
                // Rows before it are passed over, not made into features.
                Text error;
                int state = 1;
                for (GIntBig i = 0; i < index && state > 0; ++i)
                    state = mr_rows_next(m_rows, nullptr, error.out());
                if (state < 0)
                    Raise(error);
                m_done = state <= 0;
                return m_done ? OGRERR_FAILURE : OGRERR_NONE;
            },
            OGRERR_FAILURE);
    }

    OGRFeature *GetFeature(GIntBig fid) override
    {
        return Guarded([&] { return ByNumber(fid); },
                       static_cast<OGRFeature *>(nullptr));
    }

    bool GetArrowStream(struct ArrowArrayStream *stream,
                        CSLConstList options) override
    {
        Range range = All();
        if (!IsListed(range))
            return OGRLayer::GetArrowStream(stream, options);
        std::vector<const char *> without;
        for (int i = 0; i < m_definition->GetFieldCount(); ++i)
        {
            if (m_definition->GetFieldDefn(i)->IsIgnored())
                without.push_back(m_definition->GetFieldDefn(i)->GetNameRef());
        }
        without.push_back(nullptr);
        const bool number =
            CPLTestBool(CSLFetchNameValueDef(options, "INCLUDE_FID", "YES"));
        const int rows =
            std::max(1, atoi(CSLFetchNameValueDef(
                            options, "MAX_FEATURES_IN_BATCH", "65536")));
        Text error;
        if (mr_rows_stream(m_store->Handle(), static_cast<size_t>(m_table),
                           range.lo.data(), range.hi.data(), range.lo.size(),
                           without.data(), number ? "OGC_FID" : nullptr,
                           static_cast<size_t>(rows), stream, error.out()))
            return true;
        Raise(error);
        return false;
    }

    int TestCapability(const char *capability) const override
    {
        if (EQUAL(capability, OLCFastFeatureCount) ||
            EQUAL(capability, OLCFastGetArrowStream) ||
            EQUAL(capability, OLCFastSetNextByIndex))
        {
            Range range = All();
            return IsListed(range);
        }
        if (EQUAL(capability, OLCRandomRead))
            return !m_counts.empty();
        return EQUAL(capability, OLCStringsAsUTF8) ||
               EQUAL(capability, OLCIgnoreFields);
    }

  private:
    Range All() const
    {
        return {std::vector<uint64_t>(m_counts.size(), 0), m_counts};
    }

    // Whether the rows are those of a table with keys in the range, which the
    // filter narrows, without a look at each.
    bool IsListed(Range &range) const
    {
        return m_table >= 0 &&
               (!m_poAttrQuery || NarrowBy(static_cast<const swq_expr_node *>(
                                               m_poAttrQuery->GetSWQExpr()),
                                           range));
    }

    bool Begin()
    {
        Text error;
        if (m_table < 0)
            m_rows = mr_rows_sql(m_store->Handle(), m_sql.c_str(), error.out());
        else
        {
            Range range = All();
            IsListed(range);
            m_rows = mr_rows_open(
                m_store->Handle(), static_cast<size_t>(m_table),
                range.lo.data(), range.hi.data(), range.lo.size(), error.out());
        }
        if (!m_rows)
            Raise(error);
        return m_rows != nullptr;
    }

    OGRFeature *Next()
    {
        if (m_done || (!m_rows && !Begin()))
            return nullptr;
        for (;;)
        {
            auto feature = ReadOne(m_rows);
            if (!feature)
            {
                m_done = true;
                return nullptr;
            }
            if (!m_poAttrQuery || m_poAttrQuery->Evaluate(feature.get()))
                return feature.release();
        }
    }

    std::unique_ptr<OGRFeature> ReadOne(MrRows *rows) const
    {
        Text error;
        int64_t number = 0;
        const int state = mr_rows_next(rows, &number, error.out());
        if (state < 0)
            Raise(error);
        if (state <= 0)
            return nullptr;
        auto feature = std::make_unique<OGRFeature>(m_definition);
        feature->SetFID(number);
        for (size_t i = 0; i < m_columns.size(); ++i)
        {
            const int field = static_cast<int>(i);
            MrValue value{};
            mr_rows_value(rows, i, &value);
            if (value.kind == 0 ||
                m_definition->GetFieldDefn(field)->IsIgnored())
                feature->SetFieldNull(field);
            else if (value.kind == 1)
                feature->SetField(field, static_cast<GIntBig>(value.integer));
            else if (value.kind == 2)
                feature->SetField(field, value.real);
            else if (value.kind == 3)
                feature->SetField(
                    field,
                    std::string(reinterpret_cast<const char *>(value.bytes),
                                value.length)
                        .c_str());
            else if (value.length <=
                     static_cast<size_t>(std::numeric_limits<int>::max()))
                feature->SetField(field, static_cast<int>(value.length),
                                  value.bytes);
        }
        return feature;
    }

    OGRFeature *ByNumber(GIntBig fid)
    {
        // The number of a chunk is its place in the chunk grid, in C order: one
        // look-up.
        if (m_counts.empty())
            return OGRLayer::GetFeature(fid);
        Range range = All();
        auto rest = static_cast<uint64_t>(std::max<GIntBig>(fid, 0));
        for (size_t a = m_counts.size(); a-- > 0;)
        {
            if (m_counts[a] == 0)
                return nullptr;
            range.lo[a] = rest % m_counts[a];
            range.hi[a] = range.lo[a] + 1;
            rest /= m_counts[a];
        }
        if (fid < 0 || rest != 0)
            return nullptr;
        Text error;
        MrRows *rows = mr_rows_open(
            m_store->Handle(), static_cast<size_t>(m_table), range.lo.data(),
            range.hi.data(), range.lo.size(), error.out());
        if (!rows)
        {
            Raise(error);
            return nullptr;
        }
        auto feature = ReadOne(rows);
        mr_rows_close(rows);
        return feature.release();
    }

    std::shared_ptr<OpenStore> m_store;
    GDALDataset *m_dataset;
    // Number of the table; -1 for a query.
    int m_table;
    std::vector<ColumnInfo> m_columns;
    std::vector<uint64_t> m_counts;
    std::string m_sql;
    OGRFeatureDefn *m_definition;
    MrRows *m_rows = nullptr;
    bool m_done = false;
};

} // namespace

std::vector<std::unique_ptr<OGRLayer>>
MakeLayers(const std::shared_ptr<OpenStore> &store, GDALDataset *dataset)
{
    std::vector<std::unique_ptr<OGRLayer>> layers;
    Text error;
    const Text json(mr_tables(store->Handle(), error.out()));
    CPLJSONDocument document;
    if (!json || !document.LoadMemory(std::string(json.get())))
    {
        Raise(error);
        return layers;
    }
    int number = 0;
    for (const auto &table : document.GetRoot().GetArray("tables"))
    {
        auto layer = std::make_unique<Layer>(
            store, dataset, number++, table.GetString("name"),
            ReadColumns(table.GetArray("columns")));
        std::vector<uint64_t> counts;
        for (const auto &count : table.GetArray("counts"))
            counts.push_back(static_cast<uint64_t>(count.ToLong()));
        layer->SetCounts(std::move(counts));
        for (const auto &item : table.GetObj("metadata").GetChildren())
            layer->SetMetadataItem(item.GetName().c_str(),
                                   item.ToString().c_str());
        layers.push_back(std::move(layer));
    }
    return layers;
}

std::unique_ptr<OGRLayer> RunQuery(const std::shared_ptr<OpenStore> &store,
                                   const char *sql)
{
    Text error;
    MrRows *rows = mr_rows_sql(store->Handle(), sql, error.out());
    if (!rows)
    {
        Raise(error);
        return nullptr;
    }
    const Text json(mr_rows_columns(rows));
    CPLJSONDocument document;
    document.LoadMemory(std::string(json.get()));
    auto layer = std::make_unique<Layer>(
        store, nullptr, -1, "SELECT",
        ReadColumns(document.GetRoot().GetArray("columns")));
    layer->SetQuery(sql, rows);
    return layer;
}

} // namespace mdimrefs
