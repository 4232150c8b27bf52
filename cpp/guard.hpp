// Errors across the seam: messages of Rust become CPLErrors, and no exception
// leaves a function that GDAL or Rust called.
#pragma once

#include "mdimrefs_ffi.h"

#include "cpl_error.h"
#include "cpl_string.h"

#include <exception>
#include <memory>
#include <string>

namespace mdimrefs
{

// Text that Rust allocated.
class Text
{
  public:
    Text() = default;

    explicit Text(char *text) : m_text(text)
    {
    }

    Text(const Text &) = delete;
    Text &operator=(const Text &) = delete;

    ~Text()
    {
        mr_string_free(m_text);
    }

    // For an output argument.
    char **out()
    {
        return &m_text;
    }

    const char *get() const
    {
        return m_text ? m_text : "";
    }

    explicit operator bool() const
    {
        return m_text != nullptr;
    }

  private:
    char *m_text = nullptr;
};

// Raises the error that Rust returned.
inline void Raise(const Text &error)
{
    CPLError(CE_Failure, CPLE_AppDefined, "%s",
             error ? error.get() : "MDIMREFS: unknown error");
}

// Runs `f`; an exception becomes a CPLError and `failed`.
template <class F, class R> R Guarded(F &&f, R failed) noexcept
{
    try
    {
        return f();
    }
    catch (const std::exception &e)
    {
        CPLError(CE_Failure, CPLE_AppDefined, "MDIMREFS: %s", e.what());
    }
    catch (...)
    {
        CPLError(CE_Failure, CPLE_AppDefined, "MDIMREFS: unknown exception");
    }
    return failed;
}

} // namespace mdimrefs
