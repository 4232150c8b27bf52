// What Open gives: a dataset with a root group, or a classic one.
#pragma once

#include "store.hpp"

namespace mdimrefs
{

constexpr const char *PREFIX = "MDIMREFS:";

// Opens a store for the kinds that were asked for.
GDALDataset *OpenDataset(GDALOpenInfo *info);

// Tells the parts of the name of a subdataset; null if it is none.
GDALSubdatasetInfo *SubdatasetInfo(const char *name);

} // namespace mdimrefs
