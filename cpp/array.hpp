// An array of a store.
#pragma once

#include "store.hpp"

namespace mdimrefs
{

std::shared_ptr<GDALMDArray> MakeArray(const std::shared_ptr<OpenStore> &store,
                                       size_t number);

} // namespace mdimrefs
