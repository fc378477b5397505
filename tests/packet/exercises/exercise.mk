# SPDX-License-Identifier: Apache-2.0
# Rules of all exercises, with the variables of p4lang's tutorials.
P4C = p4c-bm2-ss
BMV2_SWITCH_EXE = simple_switch_grpc
PYTHON = python3
RUN_SCRIPT = -m weirlab.bmv2
TOPO = topology.json
PROGRAM = $(wildcard *.p4)
JSON = build/$(PROGRAM:.p4=.json)

run: build
	$(PYTHON) $(RUN_SCRIPT) -t $(TOPO) -j $(JSON) -b $(BMV2_SWITCH_EXE)

build: $(JSON)

build/%.json: %.p4 ../include/headers.p4
	mkdir -p build
	$(P4C) --p4v 16 -I ../include --p4runtime-files build/$*.p4.p4info.txtpb -o $@ $<

clean:
	rm -rf build logs pcaps

.PHONY: run build clean
