if id >= {{groups}} {
    return;
}
let tiles = {{tiles}};
// Tiles go in bands of {{band}} rows, so that what is read stays in the cache.
let rows = {{rows}};
let columns = {{columns}};
let tile = id % tiles % (rows * columns);
let batch = id % tiles / (rows * columns);
let band = tile / ({{band}}u * columns) * {{band}}u;
let height = min(rows - band, {{band}}u);
let in_band = tile % ({{band}}u * columns);
let first_row = (band + in_band % height) * {{bm}}u;
let first_column = (in_band / height) * {{bn}}u;
let first_k = id / tiles * {{chunk}};
let end_k = min(first_k + {{chunk}}, {{k}});
{{part}}
