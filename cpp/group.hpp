// Groups and dimensions of a store.
#pragma once

#include "store.hpp"

namespace mdimrefs
{

std::shared_ptr<GDALGroup> MakeGroup(const std::shared_ptr<OpenStore> &store,
                                     size_t number);

std::shared_ptr<GDALDimension>
MakeDimension(const std::shared_ptr<OpenStore> &store, size_t number);

} // namespace mdimrefs
