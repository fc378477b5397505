# SPDX-License-Identifier: Apache-2.0
# $(1): the package. `all` builds it in PKG_BUILD_DIR and installs it in DESTINATION; `dependencies` prints what it needs.
define BuildPackage
$(eval $(call Package/$(1)))
.PHONY: all dependencies
all:
	$$(Build/Prepare)
	$$(Build/Configure)
	$$(Build/Compile)
	$$(call Package/$(1)/install,$$(DESTINATION))
dependencies:
	@echo $(PKG_VERSION) $$(DEPENDS)
endef
