// What of VSI has no C function.
#include "guard.hpp"

#include "cpl_vsi_error.h"
#include "cpl_vsi_virtual.h"

bool mr_vsi_has_pread(void *file)
{
    return mdimrefs::Guarded(
        [&] { return static_cast<VSIVirtualHandle *>(file)->HasPRead(); },
        false);
}

size_t mr_vsi_pread(void *file, void *buffer, size_t size, uint64_t offset)
{
    return mdimrefs::Guarded(
        [&]
        {
            return static_cast<VSIVirtualHandle *>(file)->PRead(buffer, size,
                                                                offset);
        },
        static_cast<size_t>(0));
}

bool mr_vsi_stat(const char *path, uint64_t *size, int64_t *mtime)
{
    return mdimrefs::Guarded(
        [&]
        {
            VSIStatBufL stat;
            if (VSIStatExL(path, &stat, 0) != 0)
                return false;
            *size = static_cast<uint64_t>(stat.st_size);
            *mtime = static_cast<int64_t>(stat.st_mtime);
            return true;
        },
        false);
}

void mr_vsi_error_reset(void)
{
    VSIErrorReset();
}

const char *mr_vsi_error(void)
{
    const char *message = VSIGetLastErrorMsg();
    return message ? message : "";
}
