"use strict";
// Written by `python viz/translate_layout.py` from layering.py, ordering.py, layout.py: edit those.
const layered = (() => {
function Layers(boxes, pins, row, upper, lower, trunk, deepest, direct, reversed) { Object.assign(this, { boxes, pins, row, upper, lower, trunk, deepest, direct, reversed }); }
function Layout(x, y, routes, direct, backward, width, height, deepest, row, points, tops, bottoms) { Object.assign(this, { x, y, routes, direct, backward, width, height, deepest, row, points, tops, bottoms }); }
function Places(layers, x, y, heights, tops, bottoms, exits, entries) { Object.assign(this, { layers, x, y, heights, tops, bottoms, exits, entries }); }
var _pyfunc_abs = Math.abs;
var _pyfunc_int = function (x, base) { // nargs: 1 2
    if(base !== undefined) return parseInt(x, base);
    return x<0 ? Math.ceil(x): Math.floor(x);
};
var _pyfunc_range = function (start, end, step) {
    var i, res = [];
    var val = start;
    var n = (end - start) / step;
    for (i=0; i<n; i++) {
        res.push(val);
        val += step;
    }
    return res;
};
var _pyfunc_sorted = function (iter, key, reverse) { // nargs: 1 2 3
    if ((typeof iter==="object") && (!Array.isArray(iter))) {iter = Object.keys(iter);}
    var comp = function (a, b) {a = key(a); b = key(b);
        if (a<b) {return -1;} if (a>b) {return 1;} return 0;};
    comp = Boolean(key) ? comp : undefined;
    iter = iter.slice().sort(comp);
    if (reverse) iter.reverse();
    return iter;
};
var _pymeth_append = function (x) { // nargs: 1
    if (!Array.isArray(this)) return this.append.apply(this, arguments);
    this.push(x);
};
var _pymeth_get = function (key, d) { // nargs: 1 2
    if (this.constructor !== Object) return this.get.apply(this, arguments);
    if (this[key] !== undefined) {return this[key];}
    else if (d !== undefined) {return d;}
    else {return null;}
};
var _pymeth_reverse = function () { // nargs: 0
    this.reverse();
};
var _pymeth_sort = function (key, reverse) { // nargs: 0 1 2
    if (!Array.isArray(this)) return this.sort.apply(this, arguments);
    var comp = function (a, b) {a = key(a); b = key(b);
        if (a<b) {return -1;} if (a>b) {return 1;} return 0;};
    comp = Boolean(key) ? comp : undefined;
    this.sort(comp);
    if (reverse) this.reverse();
};
var BOX_GAP, ENTRY_GAP, EXIT_GAP, LABEL_ROOM, RIM_GAP, ROW_GAP, STUB, WAYPOINT_GAP, _CAREFUL, _add_tap, _add_trunks, _columns, _entries, _few_crossings, _first_order, _gain, _join, _keep_order, _number, _of_a_kind, _offsets, _pin_rows, _route, _row_edges, _row_gap, _rows, _settle, _strengths, _swap_neighbours, _sweep, _topological_rank, _without_repeats, assign_layers, crossings, order_rows, place, stub83_;
assign_layers = function flx_assign_layers (boxes, links, pins, budget) {
    var against, ends, k, layers, lower, oriented, port, rank, row, source, stub1_, stub1__, stub1_i0, stub1_iter0, stub2_, stub3_, stub3__, stub3_i0, stub3_iter0, stub4_, stub4__, stub4_i0, stub4_iter0, stub5_, stub5_i0, stub5_iter0, stub5_link, target, upper;
    pins = (pins === undefined) ? null: pins;
    budget = (budget === undefined) ? null: budget;
    if ((pins === null)) {
        stub1_ = [];stub1_iter0 = _pyfunc_range(0, boxes, 1);for (stub1_i0=0; stub1_i0<stub1_iter0.length; stub1_i0++) {stub1__ = stub1_iter0[stub1_i0];{stub1_.push("");}}
        pins = stub1_;
    }
    rank = _topological_rank(boxes, links);
    oriented = [];
    for (k = 0; k < links.length; k += 1) {
        stub2_ = links[k];
        source = stub2_[0];target = stub2_[1];port = stub2_[2];
        ends = ((rank[source] < rank[target]))? ([source, target, port]) : ([target, source, (-1) - k]);
        _pymeth_append.call(oriented, ends);
    }
    row = _rows(boxes, oriented, rank);
    _pin_rows(row, pins);
    stub3_ = [];stub3_iter0 = _pyfunc_range(0, boxes, 1);for (stub3_i0=0; stub3_i0<stub3_iter0.length; stub3_i0++) {stub3__ = stub3_iter0[stub3_i0];{stub3_.push([]);}}
    upper = stub3_;
    stub4_ = [];stub4_iter0 = _pyfunc_range(0, boxes, 1);for (stub4_i0=0; stub4_i0<stub4_iter0.length; stub4_i0++) {stub4__ = stub4_iter0[stub4_i0];{stub4_.push([]);}}
    lower = stub4_;
    stub5_ = [];stub5_iter0 = links;for (stub5_i0=0; stub5_i0<stub5_iter0.length; stub5_i0++) {stub5_link = stub5_iter0[stub5_i0];{stub5_.push((rank[stub5_link[0]]) > (rank[stub5_link[1]]));}}
    against = stub5_;
    layers = new Layers(boxes, pins, row, upper, lower, [], [], [], against);
    _add_trunks(layers, oriented, ((budget === null))? (20000 + (2 * boxes)) : (budget));
    return layers;
};

_topological_rank = function flx__topological_rank (boxes, links) {
    var _, box, lowest, placed, rank, ready, source, stub10_tgt, stub11_, stub11_i0, stub11_iter0, stub12_, stub12_box, stub12_i0, stub12_iter0, stub13_seq, stub14_itr, stub15_seq, stub16_itr, stub6_, stub6__, stub6_i0, stub6_iter0, stub7_, stub7__, stub7_i0, stub7_iter0, stub8_seq, stub9_itr, target, targets, waiting;
    stub6_ = [];stub6_iter0 = _pyfunc_range(0, boxes, 1);for (stub6_i0=0; stub6_i0<stub6_iter0.length; stub6_i0++) {stub6__ = stub6_iter0[stub6_i0];{stub6_.push(0);}}
    waiting = stub6_;
    stub7_ = [];stub7_iter0 = _pyfunc_range(0, boxes, 1);for (stub7_i0=0; stub7_i0<stub7_iter0.length; stub7_i0++) {stub7__ = stub7_iter0[stub7_i0];{stub7_.push([]);}}
    targets = stub7_;
    stub8_seq = links;
    for (stub9_itr = 0; stub9_itr < stub8_seq.length; stub9_itr += 1) {
        stub10_tgt = stub8_seq[stub9_itr];
        source = stub10_tgt[0]; target = stub10_tgt[1]; _ = stub10_tgt[2];
        _pymeth_append.call(targets[source], target);
        waiting[target] += 1;
    }
    stub11_ = [];stub11_iter0 = _pyfunc_range(0, boxes, 1);for (stub11_i0=0; stub11_i0<stub11_iter0.length; stub11_i0++) {_ = stub11_iter0[stub11_i0];{stub11_.push(-1);}}
    rank = stub11_;
    stub12_ = [];stub12_iter0 = _pyfunc_range(0, boxes, 1);for (stub12_i0=0; stub12_i0<stub12_iter0.length; stub12_i0++) {stub12_box = stub12_iter0[stub12_i0];if (!((waiting[stub12_box]==0))) {continue;}{stub12_.push(stub12_box);}}
    ready = stub12_;
    placed = 0;
    lowest = 0;
    while (placed < boxes) {
        if ((ready.length == 0)) {
            while (rank[lowest] >= 0) {
                lowest += 1;
            }
            _pymeth_append.call(ready, lowest);
        }
        stub15_seq = ready;
        for (stub16_itr = 0; stub16_itr < stub15_seq.length; stub16_itr += 1) {
            box = stub15_seq[stub16_itr];
            if ((rank[box] >= 0)) {
                continue;
            }
            rank[box] = placed;
            placed += 1;
            stub13_seq = targets[box];
            for (stub14_itr = 0; stub14_itr < stub13_seq.length; stub14_itr += 1) {
                target = stub13_seq[stub14_itr];
                waiting[target] -= 1;
                if ((waiting[target]==0)) {
                    _pymeth_append.call(ready, target);
                }
            }
        }
        ready = [];
    }
    return rank;
};

_rows = function flx__rows (boxes, oriented, rank) {
    var _, across, alone, at, below, box, inputs, least, order, row, source, stub17_, stub17__, stub17_i0, stub17_iter0, stub18_, stub18__, stub18_i0, stub18_iter0, stub19_seq, stub20_itr, stub21_tgt, stub22_, stub22_i0, stub22_iter0, stub23_, stub23_i0, stub23_iter0, stub24_seq, stub25_itr, stub26_seq, stub27_itr, stub28_seq, stub29_itr, stub30_seq, stub31_itr, stub32_, stub32_i0, stub32_iter0, target, targets;
    stub17_ = [];stub17_iter0 = _pyfunc_range(0, boxes, 1);for (stub17_i0=0; stub17_i0<stub17_iter0.length; stub17_i0++) {stub17__ = stub17_iter0[stub17_i0];{stub17_.push([]);}}
    targets = stub17_;
    stub18_ = [];stub18_iter0 = _pyfunc_range(0, boxes, 1);for (stub18_i0=0; stub18_i0<stub18_iter0.length; stub18_i0++) {stub18__ = stub18_iter0[stub18_i0];{stub18_.push(0);}}
    inputs = stub18_;
    stub19_seq = oriented;
    for (stub20_itr = 0; stub20_itr < stub19_seq.length; stub20_itr += 1) {
        stub21_tgt = stub19_seq[stub20_itr];
        source = stub21_tgt[0]; target = stub21_tgt[1]; _ = stub21_tgt[2];
        _pymeth_append.call(targets[source], target);
        inputs[target] += 1;
    }
    stub22_ = [];stub22_iter0 = _pyfunc_range(0, boxes, 1);for (stub22_i0=0; stub22_i0<stub22_iter0.length; stub22_i0++) {_ = stub22_iter0[stub22_i0];{stub22_.push(0);}}
    order = stub22_;
    for (box = 0; box < boxes; box += 1) {
        order[rank[box]] = box;
    }
    stub23_ = [];stub23_iter0 = _pyfunc_range(0, boxes, 1);for (stub23_i0=0; stub23_i0<stub23_iter0.length; stub23_i0++) {_ = stub23_iter0[stub23_i0];{stub23_.push(0);}}
    row = stub23_;
    stub26_seq = order;
    for (stub27_itr = 0; stub27_itr < stub26_seq.length; stub27_itr += 1) {
        box = stub26_seq[stub27_itr];
        below = row[box] + 1;
        stub24_seq = targets[box];
        for (stub25_itr = 0; stub25_itr < stub24_seq.length; stub25_itr += 1) {
            target = stub24_seq[stub25_itr];
            if ((row[target] < below)) {
                row[target] = below;
            }
        }
    }
    _pymeth_reverse.call(order);
    stub30_seq = order;
    for (stub31_itr = 0; stub31_itr < stub30_seq.length; stub31_itr += 1) {
        box = stub30_seq[stub31_itr];
        if (((targets[box].length) > 0)) {
            least = row[targets[box][0]];
            stub28_seq = targets[box];
            for (stub29_itr = 0; stub29_itr < stub28_seq.length; stub29_itr += 1) {
                target = stub28_seq[stub29_itr];
                least = Math.min(least, row[target]);
            }
            row[box] = least - 1;
        }
    }
    stub32_ = [];stub32_iter0 = _pyfunc_range(0, boxes, 1);for (stub32_i0=0; stub32_i0<stub32_iter0.length; stub32_i0++) {box = stub32_iter0[stub32_i0];if (!(((((targets[box].length)==0)) && (inputs[box]==0)))) {continue;}{stub32_.push(box);}}
    alone = stub32_;
    across = Math.max(6, (_pyfunc_int(Math.pow(alone.length, 0.5))));
    for (at = 0; at < alone.length; at += 1) {
        row[alone[at]] = Math.floor(at/across);
    }
    return row;
};

_pin_rows = function flx__pin_rows (row, pins) {
    var above, box, inner, least, most, side, stub33_, stub33_box, stub33_i0, stub33_iter0, stub34_seq, stub35_itr, stub36_seq, stub37_itr;
    stub33_ = [];stub33_iter0 = _pyfunc_range(0, row.length, 1);for (stub33_i0=0; stub33_i0<stub33_iter0.length; stub33_i0++) {stub33_box = stub33_iter0[stub33_i0];if (!((pins[stub33_box]==""))) {continue;}{stub33_.push(stub33_box);}}
    inner = stub33_;
    if ((inner.length == row.length)) {
        return null;
    }
    least = row.length;
    most = 0;
    stub34_seq = inner;
    for (stub35_itr = 0; stub35_itr < stub34_seq.length; stub35_itr += 1) {
        box = stub34_seq[stub35_itr];
        least = Math.min(least, row[box]);
        most = Math.max(most, row[box]);
    }
    above = 0;
    stub36_seq = pins;
    for (stub37_itr = 0; stub37_itr < stub36_seq.length; stub37_itr += 1) {
        side = stub36_seq[stub37_itr];
        if ((side=="top")) {
            above = 1;
        }
    }
    for (box = 0; box < row.length; box += 1) {
        if ((pins[box]=="top")) {
            row[box] = 0;
        } else if ((pins[box]=="bottom")) {
            row[box] = ((most - least) + above) + 1;
        } else {
            row[box] += above - least;
        }
    }
    return null;
};

_add_trunks = function flx__add_trunks (layers, oriented, budget) {
    var _, above, drawn, firsts, k, key, lengths, numbers, port, row, source, sources, stub38_seq, stub39_itr, stub40_tgt, stub41_, stub41__, stub41_i0, stub41_iter0, stub42_seq, stub43_itr, stub44_, stub44_i0, stub44_iter0, stub45_, target, trunk, trunk_of, whole;
    row = layers.row;
    numbers = ({});
    sources = [];
    lengths = [];
    trunk_of = [];
    stub38_seq = oriented;
    for (stub39_itr = 0; stub39_itr < stub38_seq.length; stub39_itr += 1) {
        stub40_tgt = stub38_seq[stub39_itr];
        source = stub40_tgt[0]; target = stub40_tgt[1]; port = stub40_tgt[2];
        key = source + (layers.boxes * port);
        trunk = _pymeth_get.call(numbers, key, (-1));
        if ((trunk < 0)) {
            trunk = sources.length;
            numbers[key] = trunk;
            _pymeth_append.call(sources, source);
            _pymeth_append.call(lengths, 0);
        }
        lengths[trunk] = Math.max(lengths[trunk], ((row[target] - row[source]) - 1));
        _pymeth_append.call(trunk_of, trunk);
    }
    stub41_ = [];stub41_iter0 = sources;for (stub41_i0=0; stub41_i0<stub41_iter0.length; stub41_i0++) {stub41__ = stub41_iter0[stub41_i0];{stub41_.push(-1);}}
    firsts = stub41_;
    stub42_seq = _pyfunc_sorted(_pyfunc_range(0, sources.length, 1), ((function (at) {return lengths[at];}).bind(this)), false);
    for (stub43_itr = 0; stub43_itr < stub42_seq.length; stub43_itr += 1) {
        trunk = stub42_seq[stub43_itr];
        if ((lengths[trunk] > budget)) {
            break;
        }
        budget -= lengths[trunk];
        firsts[trunk] = row.length;
        above = sources[trunk];
        for (_ = 0; _ < lengths[trunk]; _ += 1) {
            _pymeth_append.call(row, (row[above] + 1));
            _pymeth_append.call(layers.upper, []);
            _pymeth_append.call(layers.lower, []);
            _join(layers, above, row.length - 1);
            above = row.length - 1;
        }
    }
    stub44_ = [];stub44_iter0 = sources;for (stub44_i0=0; stub44_i0<stub44_iter0.length; stub44_i0++) {_ = stub44_iter0[stub44_i0];{stub44_.push(false);}}
    drawn = stub44_;
    for (k = 0; k < oriented.length; k += 1) {
        stub45_ = oriented[k];
        source = stub45_[0];target = stub45_[1];_ = stub45_[2];
        trunk = trunk_of[k];
        _add_tap(layers, source, target, firsts[trunk]);
        whole = ((((row[target] - row[source]) - 1)==lengths[trunk])) && (!drawn[trunk]);
        _pymeth_append.call(layers.deepest, whole);
        drawn[trunk] = drawn[trunk] || whole;
    }
    return null;
};

_add_tap = function flx__add_tap (layers, source, target, first) {
    var span, without;
    span = (layers.row[target] - layers.row[source]) - 1;
    without = first < 0;
    _pymeth_append.call(layers.direct, (without && (span > 0)));
    _pymeth_append.call(layers.trunk, ((without)? ([0, 0]) : ([first, span])));
    if ((span==0)) {
        _join(layers, source, target);
    } else if ((!without)) {
        _join(layers, (first + span) - 1, target);
    }
    return null;
};

_join = function flx__join (layers, above, below) {
    _pymeth_append.call(layers.lower[above], below);
    _pymeth_append.call(layers.upper[below], above);
    return null;
};

_CAREFUL = 3000;
order_rows = function flx_order_rows (layers, before) {
    var place, rows, stub46_, stub46__, stub46_i0, stub46_iter0;
    before = (before === undefined) ? null: before;
    stub46_ = [];stub46_iter0 = layers.row;for (stub46_i0=0; stub46_i0<stub46_iter0.length; stub46_i0++) {stub46__ = stub46_iter0[stub46_i0];{stub46_.push(0);}}
    place = stub46_;
    rows = _few_crossings(layers, place);
    if (((before !== null) && (before.length > 0))) {
        _keep_order(rows, layers, place, before);
    }
    return rows;
};

_few_crossings = function flx__few_crossings (layers, place) {
    var best, fewest, found, points, rows, stub47_, stub47_i0, stub47_iter0, stub47_row, stub48_, stub48_i0, stub48_iter0, stub48_row, sweep, sweeps;
    rows = _first_order(layers);
    points = layers.row.length;
    sweeps = ((points > 50000))? (2) : (((points > _CAREFUL))? (3) : (12));
    _number(rows, place);
    if ((points > _CAREFUL)) {
        for (sweep = 0; sweep < sweeps; sweep += 1) {
            _sweep(rows, layers, place, (sweep % 2)==0);
        }
        return rows;
    }
    stub47_ = [];stub47_iter0 = rows;for (stub47_i0=0; stub47_i0<stub47_iter0.length; stub47_i0++) {stub47_row = stub47_iter0[stub47_i0];{stub47_.push(stub47_row.slice(0));}}
    best = stub47_;
    fewest = crossings(rows, layers);
    for (sweep = 0; sweep < sweeps; sweep += 1) {
        _sweep(rows, layers, place, (sweep % 2)==0);
        found = crossings(rows, layers);
        if ((found < fewest)) {
            stub48_ = [];stub48_iter0 = rows;for (stub48_i0=0; stub48_i0<stub48_iter0.length; stub48_i0++) {stub48_row = stub48_iter0[stub48_i0];{stub48_.push(stub48_row.slice(0));}}
            best = stub48_;
            fewest = found;
        }
        if ((fewest==0)) {
            break;
        }
    }
    _number(best, place);
    _swap_neighbours(best, layers, place, (function list_comprehension (iter0) {var res = [];var _, i0;for (i0=0; i0<iter0.length; i0++) {_ = iter0[i0];{res.push(false);}}return res;}).call(this, place));
    return best;
};

_keep_order = function flx__keep_order (rows, layers, place, before) {
    var box, k, kept, row, slots, stood, stub49_, stub49__, stub49_i0, stub49_iter0, stub50_, stub50_at, stub50_i0, stub50_iter0, stub51_, stub51_i0, stub51_iter0, stub51_point, stub52_, stub52_at, stub52_i0, stub52_iter0, stub53_seq, stub54_itr, x;
    stub49_ = [];stub49_iter0 = place;for (stub49_i0=0; stub49_i0<stub49_iter0.length; stub49_i0++) {stub49__ = stub49_iter0[stub49_i0];{stub49_.push(false);}}
    kept = stub49_;
    for (box = 0; box < layers.boxes; box += 1) {
        kept[box] = before[box] !== null;
    }
    stub50_ = [];stub50_iter0 = before;for (stub50_i0=0; stub50_i0<stub50_iter0.length; stub50_i0++) {stub50_at = stub50_iter0[stub50_i0];{stub50_.push(((stub50_at === null))? (0.0) : (stub50_at));}}
    x = stub50_;
    stub53_seq = rows;
    for (stub54_itr = 0; stub54_itr < stub53_seq.length; stub54_itr += 1) {
        row = stub53_seq[stub54_itr];
        stub51_ = [];stub51_iter0 = row;for (stub51_i0=0; stub51_i0<stub51_iter0.length; stub51_i0++) {stub51_point = stub51_iter0[stub51_i0];if (!(kept[stub51_point])) {continue;}{stub51_.push(stub51_point);}}
        stood = stub51_;
        _pymeth_sort.call(stood, ((function (point) {return x[point];}).bind(this)), false);
        stub52_ = [];stub52_iter0 = _pyfunc_range(0, row.length, 1);for (stub52_i0=0; stub52_i0<stub52_iter0.length; stub52_i0++) {stub52_at = stub52_iter0[stub52_i0];if (!((kept[row[stub52_at]]))) {continue;}{stub52_.push(stub52_at);}}
        slots = stub52_;
        for (k = 0; k < slots.length; k += 1) {
            row[slots[k]] = stood[k];
        }
    }
    _number(rows, place);
    if ((place.length <= _CAREFUL)) {
        _swap_neighbours(rows, layers, place, kept);
    }
    return null;
};

crossings = function flx_crossings (rows, layers) {
    var at, below, end, met, place, point, stub55_, stub55__, stub55_i0, stub55_iter0, stub56_, stub56__, stub56_i0, stub56_iter0, stub57_seq, stub58_itr, stub59_seq, stub60_itr, stub61_seq, stub62_itr, total, tree;
    stub55_ = [];stub55_iter0 = layers.row;for (stub55_i0=0; stub55_i0<stub55_iter0.length; stub55_i0++) {stub55__ = stub55_iter0[stub55_i0];{stub55_.push(0);}}
    place = stub55_;
    _number(rows, place);
    total = 0;
    for (at = 0; at < rows.length - 1; at += 1) {
        stub56_ = [];stub56_iter0 = _pyfunc_range(0, ((rows[at + 1].length) + 1), 1);for (stub56_i0=0; stub56_i0<stub56_iter0.length; stub56_i0++) {stub56__ = stub56_iter0[stub56_i0];{stub56_.push(0);}}
        tree = stub56_;
        met = 0;
        stub61_seq = rows[at];
        for (stub62_itr = 0; stub62_itr < stub61_seq.length; stub62_itr += 1) {
            point = stub61_seq[stub62_itr];
            stub57_seq = layers.lower[point];
            for (stub58_itr = 0; stub58_itr < stub57_seq.length; stub58_itr += 1) {
                below = stub57_seq[stub58_itr];
                total += met;
                end = place[below] + 1;
                while (end > 0) {
                    total -= tree[end];
                    end -= end & (-end);
                }
            }
            stub59_seq = layers.lower[point];
            for (stub60_itr = 0; stub60_itr < stub59_seq.length; stub60_itr += 1) {
                below = stub59_seq[stub60_itr];
                met += 1;
                end = place[below] + 1;
                while (end < tree.length) {
                    tree[end] += 1;
                    end += end & (-end);
                }
            }
        }
    }
    return total;
};

_first_order = function flx__first_order (layers) {
    var above, at, k, last, point, rows, seen, stack, stub63_seq, stub64_itr, stub65_, stub65__, stub65_i0, stub65_iter0, stub66_, stub66__, stub66_i0, stub66_iter0, stub67_, stub67_i0, stub67_iter0, stub67_point;
    last = 0;
    stub63_seq = layers.row;
    for (stub64_itr = 0; stub64_itr < stub63_seq.length; stub64_itr += 1) {
        at = stub63_seq[stub64_itr];
        last = Math.max(last, at);
    }
    stub65_ = [];stub65_iter0 = _pyfunc_range(0, (last + 1), 1);for (stub65_i0=0; stub65_i0<stub65_iter0.length; stub65_i0++) {stub65__ = stub65_iter0[stub65_i0];{stub65_.push([]);}}
    rows = stub65_;
    stub66_ = [];stub66_iter0 = layers.row;for (stub66_i0=0; stub66_i0<stub66_iter0.length; stub66_i0++) {stub66__ = stub66_iter0[stub66_i0];{stub66_.push(false);}}
    seen = stub66_;
    stub67_ = [];stub67_iter0 = _pyfunc_range(0, layers.boxes, 1);for (stub67_i0=0; stub67_i0<stub67_iter0.length; stub67_i0++) {stub67_point = stub67_iter0[stub67_i0];if (!(((layers.lower[stub67_point].length)==0))) {continue;}{stub67_.push(stub67_point);}}
    stack = stub67_;
    _pymeth_reverse.call(stack);
    while (stack.length > 0) {
        point = stack.pop();
        if (seen[point]) {
            continue;
        }
        seen[point] = true;
        _pymeth_append.call((rows[layers.row[point]]), point);
        above = layers.upper[point];
        for (k = above.length - 1; k > -1; k += -1) {
            _pymeth_append.call(stack, above[k]);
        }
    }
    return rows;
};

_number = function flx__number (rows, place) {
    var at, row, stub68_seq, stub69_itr;
    stub68_seq = rows;
    for (stub69_itr = 0; stub69_itr < stub68_seq.length; stub69_itr += 1) {
        row = stub68_seq[stub69_itr];
        for (at = 0; at < row.length; at += 1) {
            place[row[at]] = at;
        }
    }
    return null;
};

_sweep = function flx__sweep (rows, layers, place, downward) {
    var at, beside, centre, k, other, others, point, row, stub70_, stub70__, stub70_i0, stub70_iter0, stub71_seq, stub72_itr, stub73_seq, stub74_itr, total;
    beside = (downward)? (layers.upper) : (layers.lower);
    stub70_ = [];stub70_iter0 = place;for (stub70_i0=0; stub70_i0<stub70_iter0.length; stub70_i0++) {stub70__ = stub70_iter0[stub70_i0];{stub70_.push(0.0);}}
    centre = stub70_;
    for (k = 0; k < rows.length; k += 1) {
        row = (downward)? (rows[k]) : (rows[(rows.length - 1) - k]);
        if ((row.length == 1)) {
            continue;
        }
        stub73_seq = row;
        for (stub74_itr = 0; stub74_itr < stub73_seq.length; stub74_itr += 1) {
            point = stub73_seq[stub74_itr];
            others = beside[point];
            total = 0;
            stub71_seq = others;
            for (stub72_itr = 0; stub72_itr < stub71_seq.length; stub72_itr += 1) {
                other = stub71_seq[stub72_itr];
                total += place[other];
            }
            centre[point] = ((others.length > 0))? (total / others.length) : (place[point]);
        }
        _pymeth_sort.call(row, ((function (point) {return centre[point];}).bind(this)), false);
        for (at = 0; at < row.length; at += 1) {
            place[row[at]] = at;
        }
    }
    return null;
};

_swap_neighbours = function flx__swap_neighbours (rows, layers, place, kept) {
    var _, at, left, right, row, stub75_seq, stub76_itr, swapped;
    for (_ = 0; _ < 4; _ += 1) {
        swapped = false;
        stub75_seq = rows;
        for (stub76_itr = 0; stub76_itr < stub75_seq.length; stub76_itr += 1) {
            row = stub75_seq[stub76_itr];
            for (at = 0; at < row.length - 1; at += 1) {
                left = row[at];
                right = row[at + 1];
                if (((kept[left] && kept[right]) || (_gain(left, right, layers, place) <= 0))) {
                    continue;
                }
                row[at] = right;
                row[at + 1] = left;
                place[left] = at + 1;
                place[right] = at;
                swapped = true;
            }
        }
        if ((!swapped)) {
            break;
        }
    }
    return null;
};

_gain = function flx__gain (left, right, layers, place) {
    var a, b, beside, gain, stub77_seq, stub78_itr, stub79_seq, stub80_itr, stub81_seq, stub82_itr;
    gain = 0;
    stub81_seq = [layers.upper, layers.lower];
    for (stub82_itr = 0; stub82_itr < stub81_seq.length; stub82_itr += 1) {
        beside = stub81_seq[stub82_itr];
        stub79_seq = beside[left];
        for (stub80_itr = 0; stub80_itr < stub79_seq.length; stub80_itr += 1) {
            a = stub79_seq[stub80_itr];
            stub77_seq = beside[right];
            for (stub78_itr = 0; stub78_itr < stub77_seq.length; stub78_itr += 1) {
                b = stub77_seq[stub78_itr];
                gain += (place[a] > place[b]) - (place[a] < place[b]);
            }
        }
    }
    return gain;
};

BOX_GAP = 26.0;
WAYPOINT_GAP = 12.0;
ENTRY_GAP = 14.0;
ROW_GAP = 46.0;
stub83_ = [24.0, 36.0];
RIM_GAP = stub83_[0];EXIT_GAP = stub83_[1];
LABEL_ROOM = 16.0;
STUB = 18.0;
place = function flx_place (widths, heights, links, exits, pins, before) {
    var against, bottoms, boxes, deepest, entries, height, layers, leaving, places, point, routes, row, rows, stub84_, stub85_, stub85_box, stub85_i0, stub85_iter0, stub86_, stub86_i0, stub86_iter0, stub86_k, stub87_, tops, width, x, y;
    exits = (exits === undefined) ? null: exits;
    pins = (pins === undefined) ? null: pins;
    before = (before === undefined) ? null: before;
    boxes = widths.length;
    if ((boxes==0)) {
        return new Layout([], [], [], [], [], 0.0, 0.0, [], [], [], [], []);
    }
    layers = assign_layers(boxes, links, pins);
    rows = order_rows(layers, before);
    x = _columns(rows, layers, widths);
    stub84_ = _row_edges(rows, heights, layers.pins);
    tops = stub84_[0];bottoms = stub84_[1];
    stub85_ = [];stub85_iter0 = _pyfunc_range(0, boxes, 1);for (stub85_i0=0; stub85_i0<stub85_iter0.length; stub85_i0++) {stub85_box = stub85_iter0[stub85_i0];{stub85_.push(((tops[layers.row[stub85_box]]) + (bottoms[layers.row[stub85_box]])) / 2);}}
    y = stub85_;
    leaving = ((exits === null))? ((function list_comprehension (iter0) {var res = [];var _, i0;for (i0=0; i0<iter0.length; i0++) {_ = iter0[i0];{res.push(0.0);}}return res;}).call(this, links)) : (exits);
    entries = _entries(layers, links, x, widths);
    places = new Places(layers, x, y, heights, tops, bottoms, leaving, entries);
    stub86_ = [];stub86_iter0 = _pyfunc_range(0, links.length, 1);for (stub86_i0=0; stub86_i0<stub86_iter0.length; stub86_i0++) {stub86_k = stub86_iter0[stub86_i0];{stub86_.push(_route(places, stub86_k, links[stub86_k][0], links[stub86_k][1]));}}
    routes = stub86_;
    width = 0.0;
    for (point = 0; point < x.length; point += 1) {
        width = Math.max(width, (x[point] + (((point < boxes))? (widths[point] / 2) : (0.0))));
    }
    height = bottoms[bottoms.length -1] + ((((layers.pins[rows[rows.length -1][0]])=="bottom"))? (0.0) : (STUB));
    stub87_ = [layers.reversed, layers.deepest, layers.row];
    against = stub87_[0];deepest = stub87_[1];row = stub87_[2];
    return new Layout(x.slice(0,boxes), y, routes, layers.direct, against, width, height, deepest, row, x, tops, bottoms);
};

_row_edges = function flx__row_edges (rows, heights, pins) {
    var bottoms, k, point, stub88_seq, stub89_itr, tallest, tops, y;
    tops = [];
    bottoms = [];
    y = 0.0;
    for (k = 0; k < rows.length; k += 1) {
        if ((k > 0)) {
            y += _row_gap(rows[k - 1][0], rows[k][0], pins);
        }
        _pymeth_append.call(tops, y);
        tallest = 0.0;
        stub88_seq = rows[k];
        for (stub89_itr = 0; stub89_itr < stub88_seq.length; stub89_itr += 1) {
            point = stub88_seq[stub89_itr];
            if ((point < heights.length)) {
                tallest = Math.max(tallest, heights[point]);
            }
        }
        y += tallest;
        _pymeth_append.call(bottoms, y);
    }
    return [tops, bottoms];
};

_row_gap = function flx__row_gap (above, below, pins) {
    if (((above < pins.length) && (pins[above]=="top"))) {
        return RIM_GAP;
    }
    return (((below < pins.length) && (pins[below]=="bottom")))? (EXIT_GAP) : (ROW_GAP);
};

_columns = function flx__columns (rows, layers, box_widths) {
    var _, above, at, below, down, k, left, offset, offsets, points, rounds, row, strength, stub90_, stub90_at, stub90_i0, stub90_iter0, stub91_, stub91_i0, stub91_iter0, stub91_row, stub92_, stub92__, stub92_i0, stub92_iter0, stub93_, stub94_, up, widths, x;
    points = layers.row.length;
    stub90_ = [];stub90_iter0 = _pyfunc_range(0, points, 1);for (stub90_i0=0; stub90_i0<stub90_iter0.length; stub90_i0++) {stub90_at = stub90_iter0[stub90_i0];{stub90_.push(((stub90_at < layers.boxes))? (box_widths[stub90_at]) : (0.0));}}
    widths = stub90_;
    stub91_ = [];stub91_iter0 = rows;for (stub91_i0=0; stub91_i0<stub91_iter0.length; stub91_i0++) {stub91_row = stub91_iter0[stub91_i0];{stub91_.push(_offsets(stub91_row, layers.boxes, widths));}}
    offsets = stub91_;
    stub92_ = [];stub92_iter0 = _pyfunc_range(0, points, 1);for (stub92_i0=0; stub92_i0<stub92_iter0.length; stub92_i0++) {stub92__ = stub92_iter0[stub92_i0];{stub92_.push(0.0);}}
    x = stub92_;
    for (at = 0; at < rows.length; at += 1) {
        stub93_ = [rows[at], offsets[at]];
        row = stub93_[0];offset = stub93_[1];
        for (k = 0; k < row.length; k += 1) {
            x[row[k]] = offset[k] - (offset[offset.length -1] / 2);
        }
    }
    strength = _strengths(layers);
    above = [];
    below = [];
    for (at = 0; at < points; at += 1) {
        stub94_ = [layers.upper[at], layers.lower[at]];
        up = stub94_[0];down = stub94_[1];
        _pymeth_append.call(above, (_of_a_kind(((up.length > 0))? (up) : (down), at, strength)));
        _pymeth_append.call(below, _of_a_kind(down, at, strength));
    }
    rounds = ((points > 3000))? (1) : (((points > 600))? (8) : (20));
    for (_ = 0; _ < rounds; _ += 1) {
        for (at = 0; at < rows.length; at += 1) {
            _settle(rows[at], offsets[at], above, strength, x);
        }
        for (at = rows.length - 2; at > -1; at += -1) {
            _settle(rows[at], offsets[at], below, strength, x);
        }
    }
    for (at = 0; at < rows.length; at += 1) {
        _settle(rows[at], offsets[at], above, strength, x);
    }
    left = x[0] - (widths[0] / 2);
    for (at = 0; at < points; at += 1) {
        left = Math.min(left, (x[at] - (widths[at] / 2)));
    }
    return (function list_comprehension (iter0) {var res = [];var at, i0;for (i0=0; i0<iter0.length; i0++) {at = iter0[i0];{res.push(at - left);}}return res;}).call(this, x);
};

_offsets = function flx__offsets (row, boxes, widths) {
    var apart, at, k, left, offsets, right, stub95_;
    at = 0.0;
    offsets = [0.0];
    for (k = 1; k < row.length; k += 1) {
        stub95_ = [row[k - 1], row[k]];
        left = stub95_[0];right = stub95_[1];
        apart = ((left < boxes))? (BOX_GAP) : (WAYPOINT_GAP);
        apart += ((right < boxes))? (BOX_GAP) : (WAYPOINT_GAP);
        at += ((widths[left] + widths[right]) + apart) / 2;
        _pymeth_append.call(offsets, at);
    }
    return offsets;
};

_strengths = function flx__strengths (layers) {
    var at, strength;
    strength = [];
    for (at = 0; at < layers.row.length; at += 1) {
        if (((at >= layers.boxes) || (layers.pins[at]!=""))) {
            _pymeth_append.call(strength, 3.0);
        } else {
            _pymeth_append.call(strength, ((((layers.upper[at].length) > 0))? (1.0) : (0.002)));
        }
    }
    return strength;
};

_of_a_kind = function flx__of_a_kind (others, point, strength) {
    var same, stub96_, stub96_i0, stub96_iter0, stub96_other;
    stub96_ = [];stub96_iter0 = others;for (stub96_i0=0; stub96_i0<stub96_iter0.length; stub96_i0++) {stub96_other = stub96_iter0[stub96_i0];if (!((strength[stub96_other]==strength[point]))) {continue;}{stub96_.push(stub96_other);}}
    same = stub96_;
    return ((same.length > 0))? (same) : (others);
};

_settle = function flx__settle (row, offset, beside, strength, x) {
    var at, base, before, count, k, other, own, point, pools, stub100_itr, stub101_tgt, stub97_seq, stub98_itr, stub99_seq, total, wish;
    pools = [];
    for (k = 0; k < row.length; k += 1) {
        point = row[k];
        total = 0.0;
        wish = 0.0;
        stub97_seq = beside[point];
        for (stub98_itr = 0; stub98_itr < stub97_seq.length; stub98_itr += 1) {
            other = stub97_seq[stub98_itr];
            total += strength[other];
            wish += strength[other] * x[other];
        }
        if ((total==0.0)) {
            total = 0.01;
            wish = 0.01 * x[point];
        }
        own = strength[point];
        wish = own * (wish - (total * offset[k]));
        total = own * total;
        count = 1;
        while ((pools.length > 0) && ((((pools[pools.length -1][0]) * total) > (wish * (pools[pools.length -1][1]))))) {
            before = pools.pop();
            wish = before[0] + wish;
            total = before[1] + total;
            count = before[2] + count;
        }
        _pymeth_append.call(pools, [wish, total, count]);
    }
    at = 0;
    stub99_seq = pools;
    for (stub100_itr = 0; stub100_itr < stub99_seq.length; stub100_itr += 1) {
        stub101_tgt = stub99_seq[stub100_itr];
        wish = stub101_tgt[0]; total = stub101_tgt[1]; count = stub101_tgt[2];
        base = wish / total;
        for (k = at; k < at + count; k += 1) {
            x[row[k]] = base + offset[k];
        }
        at += count;
    }
    return null;
};

_entries = function flx__entries (layers, links, x, widths) {
    var _, against, arriving, at, box, entries, first, gap, group, k, last, origins, rank, reach, source, span, stub102_, stub102__, stub102_i0, stub102_iter0, stub103_, stub104_, stub105_, stub105_i0, stub105_iter0, target, upper;
    stub102_ = [];stub102_iter0 = widths;for (stub102_i0=0; stub102_i0<stub102_iter0.length; stub102_i0++) {stub102__ = stub102_iter0[stub102_i0];{stub102_.push([]);}}
    arriving = stub102_;
    origins = [];
    for (k = 0; k < links.length; k += 1) {
        stub103_ = links[k];
        source = stub103_[0];target = stub103_[1];_ = stub103_[2];
        stub104_ = layers.trunk[k];
        first = stub104_[0];span = stub104_[1];
        against = layers.reversed[k];
        _pymeth_append.call(arriving[(against)? (source) : (target)], k);
        upper = (against)? (target) : (source);
        _pymeth_append.call(origins, x[((span > 0))? ((first + span) - 1) : (upper)]);
    }
    stub105_ = [];stub105_iter0 = links;for (stub105_i0=0; stub105_i0<stub105_iter0.length; stub105_i0++) {_ = stub105_iter0[stub105_i0];{stub105_.push(0.0);}}
    entries = stub105_;
    for (box = 0; box < widths.length; box += 1) {
        group = arriving[box];
        if ((group.length == 0)) {
            continue;
        }
        _pymeth_sort.call(group, ((function (k) {return origins[k];}).bind(this)), false);
        reach = 0.42 * widths[box];
        gap = Math.min(ENTRY_GAP, ((2 * reach) / group.length));
        at = (x[box] - reach) - gap;
        for (rank = 0; rank < group.length; rank += 1) {
            last = (x[box] + reach) - (gap * ((group.length - 1) - rank));
            at = Math.min((Math.max((origins[group[rank]]), (at + gap))), last);
            entries[group[rank]] = at;
        }
    }
    return entries;
};

_route = function flx__route (places, k, source, target) {
    var against, begin, bottoms, first, layers, lower, out, point, points, row, span, stub106_, stub107_, tops, upper, x;
    stub106_ = [places.layers, places.x, places.tops, places.bottoms];
    layers = stub106_[0];x = stub106_[1];tops = stub106_[2];bottoms = stub106_[3];
    against = layers.reversed[k];
    upper = (against)? (target) : (source);
    lower = (against)? (source) : (target);
    stub107_ = layers.trunk[k];
    first = stub107_[0];span = stub107_[1];
    points = [];
    begin = (first + span) - 1;
    if (((span==0) || layers.deepest[k])) {
        out = x[upper] + ((against)? (0.0) : (places.exits[k]));
        _pymeth_append.call(points, ([out, (places.y[upper] + (places.heights[upper] / 2)) + LABEL_ROOM]));
        _pymeth_append.call(points, ([out, (bottoms[layers.row[upper]]) + STUB]));
        begin = first;
    }
    for (point = begin; point < first + span; point += 1) {
        row = layers.row[point];
        _pymeth_append.call(points, ([x[point], tops[row]]));
        _pymeth_append.call(points, ([x[point], bottoms[row] + STUB]));
    }
    _pymeth_append.call(points, ([places.entries[k], tops[layers.row[lower]]]));
    _pymeth_append.call(points, ([places.entries[k], places.y[lower] - (places.heights[lower] / 2)]));
    if ((span > 0)) {
        points = _without_repeats(points);
    }
    if (against) {
        _pymeth_reverse.call(points);
    }
    return points;
};

_without_repeats = function flx__without_repeats (points) {
    var at, kept, x;
    kept = [points[0]];
    for (at = 1; at < points.length - 1; at += 1) {
        x = points[at][0];
        if (((((_pyfunc_abs(((kept[kept.length -1][0]) - x))) > 0.01)) || ((_pyfunc_abs(((points[at + 1][0]) - x))) > 0.01))) {
            _pymeth_append.call(kept, points[at]);
        }
    }
    _pymeth_append.call(kept, points[points.length -1]);
    return kept;
};
return { place, STUB };
})();
