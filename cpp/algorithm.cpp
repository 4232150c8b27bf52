#include "algorithm.hpp"

#include "guard.hpp"

#include "cpl_json.h"
#include "gdalalgorithm.h"

#include <list>

namespace mdimrefs
{

namespace
{

// The table of commands, read once.
const CPLJSONArray &Commands()
{
    static const CPLJSONDocument document = []
    {
        CPLJSONDocument commands;
        const Text json(mr_commands());
        commands.LoadMemory(std::string(json.get()));
        return commands;
    }();
    static const CPLJSONArray list =
        CPLJSONDocument(document).GetRoot().GetArray("commands");
    return list;
}

struct Progress
{
    GDALProgressFunc function;
    void *data;
};

bool OnProgress(void *user, double share, const char *message)
{
    const auto *progress = static_cast<Progress *>(user);
    return !progress->function ||
           progress->function(share, message, progress->data) != FALSE;
}

void OnWarning(void *, const char *message)
{
    CPLError(CE_Warning, CPLE_AppDefined, "%s", message);
}

// One command; its arguments are made from the table.
class Command final : public GDALAlgorithm
{
  public:
    explicit Command(const CPLJSONObject &command)
        : GDALAlgorithm(command.GetString("name"), command.GetString("help"),
                        "")
    {
        AddProgressArg();
        for (const auto &item : command.GetArray("arguments"))
            AddFromTable(item);
        AddOutputStringArg(&m_output);
    }

  protected:
    bool RunImpl(GDALProgressFunc function, void *data) override
    {
        return Guarded([&] { return RunCommand(function, data); }, false);
    }

  private:
    struct Value
    {
        std::string name;
        std::string kind;
        std::string text;
        std::vector<std::string> list;
        bool flag = false;
        int integer = 0;
    };

    void AddFromTable(const CPLJSONObject &item)
    {
        m_values.emplace_back();
        Value &value = m_values.back();
        value.name = item.GetString("name");
        value.kind = item.GetString("kind");
        const std::string letter = item.GetString("short");
        const char shortName = letter.empty() ? '\0' : letter[0];
        const std::string help = item.GetString("help");
        const std::string fallback = item.GetString("default");
        if (value.kind == "list")
        {
            auto &arg = AddArg(value.name, shortName, help, &value.list);
            arg.SetPackedValuesAllowed(false).SetMinCount(1);
            Finish(arg, item);
        }
        else if (value.kind == "flag")
        {
            Finish(AddArg(value.name, shortName, help, &value.flag), item);
        }
        else if (value.kind == "integer")
        {
            auto &arg = AddArg(value.name, shortName, help, &value.integer);
            if (!fallback.empty())
                arg.SetDefault(atoi(fallback.c_str()));
            Finish(arg, item);
        }
        else
        {
            auto &arg = AddArg(value.name, shortName, help, &value.text);
            std::vector<std::string> choices;
            for (const auto &choice : item.GetArray("choices"))
                choices.push_back(choice.ToString());
            if (!choices.empty())
                arg.SetChoices(choices);
            if (!fallback.empty())
                arg.SetDefault(fallback);
            Finish(arg, item);
        }
    }

    static void Finish(GDALInConstructionAlgorithmArg &arg,
                       const CPLJSONObject &item)
    {
        const std::string meta = item.GetString("meta");
        if (!meta.empty() && arg.GetType() != GAAT_BOOLEAN)
            arg.SetMetaVar(meta);
        if (item.GetBool("positional"))
            arg.SetPositional();
        if (item.GetBool("required"))
            arg.SetRequired();
    }

    bool RunCommand(GDALProgressFunc function, void *data)
    {
        CPLJSONObject arguments;
        for (const auto &value : m_values)
        {
            const GDALAlgorithmArg *arg = GetArg(value.name);
            if (!arg || (!arg->IsExplicitlySet() && !arg->HasDefaultValue()))
                continue;
            if (value.kind == "list")
            {
                CPLJSONArray list;
                for (const auto &text : value.list)
                    list.Add(text);
                arguments.Add(value.name, list);
            }
            else if (value.kind == "flag")
                arguments.Add(value.name, value.flag);
            else if (value.kind == "integer")
                arguments.Add(value.name, value.integer);
            else
                arguments.Add(value.name, value.text);
        }
        Progress progress{function, data};
        Text output;
        Text error;
        const std::string json =
            arguments.Format(CPLJSONObject::PrettyFormat::Plain);
        if (!mr_run(GetName().c_str(), json.c_str(), OnProgress, OnWarning,
                    &progress, output.out(), error.out()))
        {
            // A check that finds something has a report all the same.
            m_output = output.get();
            ReportError(CE_Failure, CPLE_AppDefined, "%s", error.get());
            return false;
        }
        m_output = output.get();
        return true;
    }

    std::list<Value> m_values;
    std::string m_output;
};

std::unique_ptr<GDALAlgorithm> Make(const std::string &name)
{
    for (const auto &command : Commands())
    {
        if (command.GetString("name") == name)
            return std::make_unique<Command>(command);
    }
    return nullptr;
}

GDALAlgorithm *Instantiate(const std::vector<std::string> &path)
{
    return Guarded(
        [&] { return path.empty() ? nullptr : Make(path.back()).release(); },
        static_cast<GDALAlgorithm *>(nullptr));
}

// Whether GDAL itself has `gdal mdim NAME`.
bool IsBuiltIn(const std::string &name)
{
    auto mdim = GDALGlobalAlgorithmRegistry::GetSingleton().Instantiate("mdim");
    if (!mdim)
        return false;
    CPLErrorStateBackuper quiet(CPLQuietErrorHandler);
    return mdim->InstantiateSubAlgorithm(name, false) != nullptr;
}

} // namespace

void DeclareAlgorithms(GDALDriver *driver)
{
    driver->pfnInstantiateAlgorithm = Instantiate;
    auto &registry = GDALGlobalAlgorithmRegistry::GetSingleton();
    bool declared = false;
    for (const auto &command : Commands())
    {
        const std::string name = command.GetString("name");
        driver->DeclareAlgorithm({name});
        if (!command.GetBool("in_mdim") || IsBuiltIn(name))
            continue;
        if (!declared)
        {
            // Else `gdal --help` would list `mdim` twice.
            registry.DeclareAlgorithm({"mdim"},
                                      []() -> std::unique_ptr<GDALAlgorithm>
                                      { return nullptr; });
            declared = true;
        }
        registry.DeclareAlgorithm({"mdim", name},
                                  [name] { return Make(name); });
    }
}

} // namespace mdimrefs
