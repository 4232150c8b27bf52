#include "algorithm.hpp"
#include "dataset.hpp"
#include "guard.hpp"

#include "gdal_priv.h"

namespace mdimrefs
{

namespace
{

int Identify(GDALOpenInfo *info)
{
    if (STARTS_WITH_CI(info->pszFilename, PREFIX))
        return TRUE;
    // A bare store, where no driver of tables is asked for alone.
    if (!info->pabyHeader || info->eAccess == GA_Update)
        return FALSE;
    if (!(info->nOpenFlags & (GDAL_OF_RASTER | GDAL_OF_MULTIDIM_RASTER)))
        return FALSE;
    return mr_is_store(info->pabyHeader,
                       static_cast<size_t>(info->nHeaderBytes));
}

GDALDataset *Open(GDALOpenInfo *info)
{
    return Identify(info) ? OpenDataset(info) : nullptr;
}

CPLErr Delete(const char *name)
{
    CPLError(
        CE_Failure, CPLE_NotSupported,
        "MDIMREFS: %s is not deleted; remove the file of the store by hand",
        name);
    return CE_Failure;
}

constexpr const char *OPEN_OPTIONS =
    "<OpenOptionList>"
    "<Option name='TARGET' type='string' description='Remap target: which paths the sources are opened by'/>"
    "<Option name='NUM_THREADS' type='string' description='Threads that fetch and decode: a number or ALL_CPUS' "
    "default='ALL_CPUS'/>"
    "<Option name='CACHE_SIZE' type='string' description='Memory for decoded chunks: bytes, or with MB or GB' "
    "default='64MB'/>"
    "<Option name='VERIFY' type='string-select' description='Check sources against what was recorded when they were "
    "scanned (default: SIZE for local sources, NO for remote ones)'>"
    "<Value>NO</Value><Value>SIZE</Value><Value>FULL</Value></Option>"
    "<Option name='MISSING_SOURCE' type='string-select' description='Chunks of a source that can not be opened: an "
    "error, or fill values' default='ERROR'><Value>ERROR</Value><Value>FILL</Value></Option>"
    "<Option name='VERIFY_CHECKSUM' type='boolean' description='Verify checksums of chunks' default='YES'/>"
    "<Option name='COORDS' type='boolean' description='Layers of chunks say where the chunks are, by their "
    "coordinates: columns DIMENSION_min and DIMENSION_max' scope='vector' default='NO'/>"
    "</OpenOptionList>";

void Register()
{
    // The layout of GDAL's classes is that of one minor version.
    if (!GDALCheckVersion(GDAL_VERSION_MAJOR, GDAL_VERSION_MINOR, nullptr))
    {
        CPLError(
            CE_Warning, CPLE_AppDefined,
            "MDIMREFS: this plugin was built for GDAL %d.%d and stays out of GDAL %s: build it anew",
            GDAL_VERSION_MAJOR, GDAL_VERSION_MINOR,
            GDALVersionInfo("RELEASE_NAME"));
        return;
    }
    if (GDALGetDriverByName("MDIMREFS"))
        return;
    auto driver = std::make_unique<GDALDriver>();
    driver->SetDescription("MDIMREFS");
    driver->SetMetadataItem(
        GDAL_DMD_LONGNAME,
        "mdim-refs: byte references to chunks of many files");
    driver->SetMetadataItem(GDAL_DCAP_RASTER, "YES");
    driver->SetMetadataItem(GDAL_DCAP_MULTIDIM_RASTER, "YES");
    driver->SetMetadataItem(GDAL_DCAP_VECTOR, "YES");
    driver->SetMetadataItem(GDAL_DMD_SUPPORTED_SQL_DIALECTS,
                            "NATIVE OGRSQL SQLITE");
    driver->SetMetadataItem(GDAL_DCAP_OPEN, "YES");
    driver->SetMetadataItem(GDAL_DCAP_VIRTUALIO, "YES");
    driver->SetMetadataItem(GDAL_DMD_CONNECTION_PREFIX, PREFIX);
    driver->SetMetadataItem(GDAL_DMD_SUBDATASETS, "YES");
    driver->SetMetadataItem(GDAL_DMD_OPENOPTIONLIST, OPEN_OPTIONS);
    driver->pfnIdentify = Identify;
    driver->pfnOpen = Open;
    driver->pfnDelete = Delete;
    driver->pfnGetSubdatasetInfoFunc = SubdatasetInfo;
    DeclareAlgorithms(driver.get());
    GetGDALDriverManager()->RegisterDriver(driver.release());
}

} // namespace

} // namespace mdimrefs

void mr_register(void)
{
    mdimrefs::Guarded(
        []
        {
            mdimrefs::Register();
            return true;
        },
        false);
}
