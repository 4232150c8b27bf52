// An attribute of an array or a group.
#pragma once

#include "store.hpp"

namespace mdimrefs
{

std::shared_ptr<GDALAttribute> MakeAttribute(const std::string &parent,
                                             const AttributeInfo &info);

} // namespace mdimrefs
