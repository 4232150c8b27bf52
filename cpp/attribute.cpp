#include "attribute.hpp"

namespace mdimrefs
{

namespace
{

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
                ParseNumber(m_texts[i], m_type, m_numbers.data() + i * size);
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

} // namespace

std::shared_ptr<GDALAttribute> MakeAttribute(const std::string &parent,
                                             const AttributeInfo &info)
{
    return std::make_shared<Attribute>(parent, info);
}

} // namespace mdimrefs
