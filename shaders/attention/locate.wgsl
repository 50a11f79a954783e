if id >= {{groups}} {
    return;
}
// Last rows first: where keys are left out by position, they see the most.
let first_row = ({{high}} - 1u - id % {{high}}) * {{rows}}u;
let first_column = id / {{high}} % {{across}} * {{columns}}u;
let batch = id / ({{high}} * {{across}}) % {{count}};
let part = id / ({{high}} * {{across}} * {{count}});
let first_key = part * {{part}};
let last_key = min(first_key + {{part}}, {{keys}});
{{end}}
