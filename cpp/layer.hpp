// The store's tables as vector layers without geometry.
#pragma once

#include "store.hpp"

#include "ogrsf_frmts.h"

namespace mdimrefs
{

// All layers of a store; empty, with an error, if they can't be had.
std::vector<std::unique_ptr<OGRLayer>>
MakeLayers(const std::shared_ptr<OpenStore> &store, GDALDataset *dataset);

// The result of a query in SQLite's own SQL.
std::unique_ptr<OGRLayer> RunQuery(const std::shared_ptr<OpenStore> &store,
                                   const char *sql);

} // namespace mdimrefs
