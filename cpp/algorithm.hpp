// The commands, as GDAL algorithms.
#pragma once

#include "gdal_priv.h"

namespace mdimrefs
{

// Declares all commands: under `gdal driver mdimrefs`, and under `gdal mdim`
// those that belong there.
void DeclareAlgorithms(GDALDriver *driver);

} // namespace mdimrefs
