// What of VSI has no C function.
#include "guard.hpp"

#include "cpl_conv.h"
#include "cpl_error.h"
#include "cpl_http.h"
#include "cpl_string.h"
#include "cpl_vsi_error.h"
#include "cpl_vsi_virtual.h"

#include <algorithm>
#include <string>

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

bool mr_vsi_is_folder(const char *path)
{
    return mdimrefs::Guarded(
        [&]
        {
            VSIStatBufL stat;
            return VSIStatExL(path, &stat,
                              VSI_STAT_EXISTS_FLAG | VSI_STAT_NATURE_FLAG) ==
                       0 &&
                   VSI_ISDIR(stat.st_mode);
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

char *mr_url(const char *path)
{
    return mdimrefs::Guarded(
        [&]() -> char *
        {
            if (STARTS_WITH(path, "/vsicurl/http://") ||
                STARTS_WITH(path, "/vsicurl/https://"))
                return CPLStrdup(path + strlen("/vsicurl/"));
            const bool isS3 = STARTS_WITH(path, "/vsis3/");
            const bool isBucket = isS3 || STARTS_WITH(path, "/vsigs/") ||
                                  STARTS_WITH(path, "/vsiaz/");
            if (!isBucket)
                return nullptr;
            const char *noSign =
                STARTS_WITH(path, "/vsiaz/")   ? "AZURE_NO_SIGN_REQUEST"
                : STARTS_WITH(path, "/vsigs/") ? "GS_NO_SIGN_REQUEST"
                                               : "AWS_NO_SIGN_REQUEST";
            if (CPLTestBool(VSIGetPathSpecificOption(path, noSign, "NO")))
            {
                const char *url = VSIGetActualURL(path);
                return url ? CPLStrdup(url) : nullptr;
            }
            // Who pays is said in a header, which a signed URL has no place
            // for.
            if (isS3 &&
                VSIGetPathSpecificOption(path, "AWS_REQUEST_PAYER", nullptr))
                return nullptr;
            CPLErrorStateBackuper quiet(CPLQuietErrorHandler);
            return VSIGetSignedURL(path, nullptr);
        },
        static_cast<char *>(nullptr));
}

void mr_url_free(char *url)
{
    CPLFree(url);
}

MrAnswer *mr_http_get(const char *url, const char *path, uint64_t offset,
                      uint64_t length, uint64_t most, const char *session)
{
    return mdimrefs::Guarded(
        [&]
        {
            // Bytes of a range are of no use compressed.
            std::string headers = "Accept-Encoding: identity";
            const char *own =
                VSIGetPathSpecificOption(path, "GDAL_HTTP_HEADERS", nullptr);
            if (own && *own)
                headers += std::string("\r\n") + own;
            headers += "\r\nRange: bytes=" + std::to_string(offset) + "-" +
                       std::to_string(offset + length - 1);
            CPLStringList options;
            options.SetNameValue("HEADERS", headers.c_str());
            options.SetNameValue("PERSISTENT", session);
            // A server that falls silent is waited for only so long, unless
            // GDAL's options say how long.
            const char *const patience[][2] = {{"CONNECTTIMEOUT", "30"},
                                               {"LOW_SPEED_TIME", "30"},
                                               {"LOW_SPEED_LIMIT", "1"}};
            for (const auto &item : patience)
            {
                const auto key = std::string("GDAL_HTTP_") + item[0];
                if (!VSIGetPathSpecificOption(path, key.c_str(), nullptr))
                    options.SetNameValue(item[0], item[1]);
            }
            options.SetNameValue("MAX_FILE_SIZE", std::to_string(most).c_str());
            return reinterpret_cast<MrAnswer *>(
                CPLHTTPFetch(url, options.List()));
        },
        static_cast<MrAnswer *>(nullptr));
}

void mr_http_close(const char *session)
{
    mdimrefs::Guarded(
        [&]
        {
            CPLStringList options;
            options.SetNameValue("CLOSE_PERSISTENT", session);
            CPLHTTPDestroyResult(CPLHTTPFetch("", options.List()));
            return true;
        },
        false);
}

namespace
{

const CPLHTTPResult *Result(const MrAnswer *answer)
{
    return reinterpret_cast<const CPLHTTPResult *>(answer);
}

} // namespace

const char *mr_answer_error(const MrAnswer *answer)
{
    const auto result = Result(answer);
    if (result->pszErrBuf)
        return result->pszErrBuf;
    return result->nStatus == 0 ? nullptr : "the request failed";
}

const char *mr_answer_header(const MrAnswer *answer, const char *name)
{
    return CSLFetchNameValue(Result(answer)->papszHeaders, name);
}

const unsigned char *mr_answer_body(const MrAnswer *answer, size_t *length)
{
    *length = static_cast<size_t>(std::max(Result(answer)->nDataLen, 0));
    return Result(answer)->pabyData;
}

void mr_answer_free(MrAnswer *answer)
{
    CPLHTTPDestroyResult(reinterpret_cast<CPLHTTPResult *>(answer));
}
