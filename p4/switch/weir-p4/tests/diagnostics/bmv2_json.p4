{ "header_types": [ ] }
