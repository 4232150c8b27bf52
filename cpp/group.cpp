#include "group.hpp"

#include "attribute.hpp"

namespace mdimrefs
{

namespace
{

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
        // Silent: GDAL looks in several groups, and takes an error for one.
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
        const std::string parent =
            GetFullName() == "/" ? "/_GLOBAL_" : GetFullName();
        std::vector<std::shared_ptr<GDALAttribute>> list;
        for (const auto &info : m_store->groups[m_number].attributes)
            list.push_back(MakeAttribute(parent, info));
        return list;
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

} // namespace

std::shared_ptr<GDALGroup> MakeGroup(const std::shared_ptr<OpenStore> &store,
                                     size_t number)
{
    return Group::Create(store, number);
}

std::shared_ptr<GDALDimension>
MakeDimension(const std::shared_ptr<OpenStore> &store, size_t number)
{
    return std::make_shared<Dimension>(store, store->dimensions[number]);
}

} // namespace mdimrefs
