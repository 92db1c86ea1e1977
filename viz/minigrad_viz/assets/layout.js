"use strict";
// Written by `python viz/translate_layout.py` from layering.py, ordering.py, layout.py: edit those.
const layered = (() => {
function Layers(boxes, pins, row, upper, lower, trunk, deepest, direct, reversed) { Object.assign(this, { boxes, pins, row, upper, lower, trunk, deepest, direct, reversed }); }
function Layout(x, y, routes, direct, backward, width, height, deepest, row, waypoints, tops, bottoms) { Object.assign(this, { x, y, routes, direct, backward, width, height, deepest, row, waypoints, tops, bottoms }); }
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
var BOX_GAP, ENTRY_GAP, EXIT_GAP, LABEL_ROOM, RIM_GAP, ROW_GAP, STUB, WAYPOINT_GAP, _CAREFUL, _add_tap, _add_trunks, _columns, _entries, _few_crossings, _first_order, _gain, _join, _keep_order, _number, _of_a_kind, _offsets, _pin_rows, _route, _row_edges, _row_gap, _rows, _settle, _strengths, _swap_neighbours, _sweep, _topological_rank, _without_repeats, assign_layers, crossings, order_rows, place, stub84_;
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
    var _, above, drawn, firsts, k, lengths, numbers, port, row, source, sources, stub38_, stub38__, stub38_i0, stub38_iter0, stub39_seq, stub40_itr, stub41_tgt, stub42_, stub42__, stub42_i0, stub42_iter0, stub43_seq, stub44_itr, stub45_, stub45_i0, stub45_iter0, stub46_, target, trunk, trunk_of, whole;
    row = layers.row;
    stub38_ = [];stub38_iter0 = _pyfunc_range(0, layers.boxes, 1);for (stub38_i0=0; stub38_i0<stub38_iter0.length; stub38_i0++) {stub38__ = stub38_iter0[stub38_i0];{stub38_.push(({}));}}
    numbers = stub38_;
    sources = [];
    lengths = [];
    trunk_of = [];
    stub39_seq = oriented;
    for (stub40_itr = 0; stub40_itr < stub39_seq.length; stub40_itr += 1) {
        stub41_tgt = stub39_seq[stub40_itr];
        source = stub41_tgt[0]; target = stub41_tgt[1]; port = stub41_tgt[2];
        trunk = _pymeth_get.call(numbers[source], port, (-1));
        if ((trunk < 0)) {
            trunk = sources.length;
            numbers[source][port] = trunk;
            _pymeth_append.call(sources, source);
            _pymeth_append.call(lengths, 0);
        }
        lengths[trunk] = Math.max(lengths[trunk], ((row[target] - row[source]) - 1));
        _pymeth_append.call(trunk_of, trunk);
    }
    stub42_ = [];stub42_iter0 = sources;for (stub42_i0=0; stub42_i0<stub42_iter0.length; stub42_i0++) {stub42__ = stub42_iter0[stub42_i0];{stub42_.push(-1);}}
    firsts = stub42_;
    stub43_seq = _pyfunc_sorted(_pyfunc_range(0, sources.length, 1), ((function (at) {return lengths[at];}).bind(this)), false);
    for (stub44_itr = 0; stub44_itr < stub43_seq.length; stub44_itr += 1) {
        trunk = stub43_seq[stub44_itr];
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
    stub45_ = [];stub45_iter0 = sources;for (stub45_i0=0; stub45_i0<stub45_iter0.length; stub45_i0++) {_ = stub45_iter0[stub45_i0];{stub45_.push(false);}}
    drawn = stub45_;
    for (k = 0; k < oriented.length; k += 1) {
        stub46_ = oriented[k];
        source = stub46_[0];target = stub46_[1];_ = stub46_[2];
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
    var place, rows, stub47_, stub47__, stub47_i0, stub47_iter0;
    before = (before === undefined) ? null: before;
    stub47_ = [];stub47_iter0 = layers.row;for (stub47_i0=0; stub47_i0<stub47_iter0.length; stub47_i0++) {stub47__ = stub47_iter0[stub47_i0];{stub47_.push(0);}}
    place = stub47_;
    rows = _few_crossings(layers, place);
    if (((before !== null) && (before.length > 0))) {
        _keep_order(rows, layers, place, before);
    }
    return rows;
};

_few_crossings = function flx__few_crossings (layers, place) {
    var best, fewest, found, points, rows, stub48_, stub48_i0, stub48_iter0, stub48_row, stub49_, stub49_i0, stub49_iter0, stub49_row, sweep, sweeps;
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
    stub48_ = [];stub48_iter0 = rows;for (stub48_i0=0; stub48_i0<stub48_iter0.length; stub48_i0++) {stub48_row = stub48_iter0[stub48_i0];{stub48_.push(stub48_row.slice(0));}}
    best = stub48_;
    fewest = crossings(rows, layers);
    for (sweep = 0; sweep < sweeps; sweep += 1) {
        _sweep(rows, layers, place, (sweep % 2)==0);
        found = crossings(rows, layers);
        if ((found < fewest)) {
            stub49_ = [];stub49_iter0 = rows;for (stub49_i0=0; stub49_i0<stub49_iter0.length; stub49_i0++) {stub49_row = stub49_iter0[stub49_i0];{stub49_.push(stub49_row.slice(0));}}
            best = stub49_;
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
    var box, k, kept, row, slots, stood, stub50_, stub50__, stub50_i0, stub50_iter0, stub51_, stub51_at, stub51_i0, stub51_iter0, stub52_, stub52_i0, stub52_iter0, stub52_point, stub53_, stub53_at, stub53_i0, stub53_iter0, stub54_seq, stub55_itr, x;
    stub50_ = [];stub50_iter0 = place;for (stub50_i0=0; stub50_i0<stub50_iter0.length; stub50_i0++) {stub50__ = stub50_iter0[stub50_i0];{stub50_.push(false);}}
    kept = stub50_;
    for (box = 0; box < layers.boxes; box += 1) {
        kept[box] = before[box] !== null;
    }
    stub51_ = [];stub51_iter0 = before;for (stub51_i0=0; stub51_i0<stub51_iter0.length; stub51_i0++) {stub51_at = stub51_iter0[stub51_i0];{stub51_.push(((stub51_at === null))? (0.0) : (stub51_at));}}
    x = stub51_;
    stub54_seq = rows;
    for (stub55_itr = 0; stub55_itr < stub54_seq.length; stub55_itr += 1) {
        row = stub54_seq[stub55_itr];
        stub52_ = [];stub52_iter0 = row;for (stub52_i0=0; stub52_i0<stub52_iter0.length; stub52_i0++) {stub52_point = stub52_iter0[stub52_i0];if (!(kept[stub52_point])) {continue;}{stub52_.push(stub52_point);}}
        stood = stub52_;
        _pymeth_sort.call(stood, ((function (point) {return x[point];}).bind(this)), false);
        stub53_ = [];stub53_iter0 = _pyfunc_range(0, row.length, 1);for (stub53_i0=0; stub53_i0<stub53_iter0.length; stub53_i0++) {stub53_at = stub53_iter0[stub53_i0];if (!((kept[row[stub53_at]]))) {continue;}{stub53_.push(stub53_at);}}
        slots = stub53_;
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
    var at, below, end, met, place, point, stub56_, stub56__, stub56_i0, stub56_iter0, stub57_, stub57__, stub57_i0, stub57_iter0, stub58_seq, stub59_itr, stub60_seq, stub61_itr, stub62_seq, stub63_itr, total, tree;
    stub56_ = [];stub56_iter0 = layers.row;for (stub56_i0=0; stub56_i0<stub56_iter0.length; stub56_i0++) {stub56__ = stub56_iter0[stub56_i0];{stub56_.push(0);}}
    place = stub56_;
    _number(rows, place);
    total = 0;
    for (at = 0; at < rows.length - 1; at += 1) {
        stub57_ = [];stub57_iter0 = _pyfunc_range(0, ((rows[at + 1].length) + 1), 1);for (stub57_i0=0; stub57_i0<stub57_iter0.length; stub57_i0++) {stub57__ = stub57_iter0[stub57_i0];{stub57_.push(0);}}
        tree = stub57_;
        met = 0;
        stub62_seq = rows[at];
        for (stub63_itr = 0; stub63_itr < stub62_seq.length; stub63_itr += 1) {
            point = stub62_seq[stub63_itr];
            stub58_seq = layers.lower[point];
            for (stub59_itr = 0; stub59_itr < stub58_seq.length; stub59_itr += 1) {
                below = stub58_seq[stub59_itr];
                total += met;
                end = place[below] + 1;
                while (end > 0) {
                    total -= tree[end];
                    end -= end & (-end);
                }
            }
            stub60_seq = layers.lower[point];
            for (stub61_itr = 0; stub61_itr < stub60_seq.length; stub61_itr += 1) {
                below = stub60_seq[stub61_itr];
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
    var above, at, k, last, point, rows, seen, stack, stub64_seq, stub65_itr, stub66_, stub66__, stub66_i0, stub66_iter0, stub67_, stub67__, stub67_i0, stub67_iter0, stub68_, stub68_i0, stub68_iter0, stub68_point;
    last = 0;
    stub64_seq = layers.row;
    for (stub65_itr = 0; stub65_itr < stub64_seq.length; stub65_itr += 1) {
        at = stub64_seq[stub65_itr];
        last = Math.max(last, at);
    }
    stub66_ = [];stub66_iter0 = _pyfunc_range(0, (last + 1), 1);for (stub66_i0=0; stub66_i0<stub66_iter0.length; stub66_i0++) {stub66__ = stub66_iter0[stub66_i0];{stub66_.push([]);}}
    rows = stub66_;
    stub67_ = [];stub67_iter0 = layers.row;for (stub67_i0=0; stub67_i0<stub67_iter0.length; stub67_i0++) {stub67__ = stub67_iter0[stub67_i0];{stub67_.push(false);}}
    seen = stub67_;
    stub68_ = [];stub68_iter0 = _pyfunc_range(0, layers.boxes, 1);for (stub68_i0=0; stub68_i0<stub68_iter0.length; stub68_i0++) {stub68_point = stub68_iter0[stub68_i0];if (!(((layers.lower[stub68_point].length)==0))) {continue;}{stub68_.push(stub68_point);}}
    stack = stub68_;
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
    var at, row, stub69_seq, stub70_itr;
    stub69_seq = rows;
    for (stub70_itr = 0; stub70_itr < stub69_seq.length; stub70_itr += 1) {
        row = stub69_seq[stub70_itr];
        for (at = 0; at < row.length; at += 1) {
            place[row[at]] = at;
        }
    }
    return null;
};

_sweep = function flx__sweep (rows, layers, place, downward) {
    var at, beside, centre, k, other, others, point, row, stub71_, stub71__, stub71_i0, stub71_iter0, stub72_seq, stub73_itr, stub74_seq, stub75_itr, total;
    beside = (downward)? (layers.upper) : (layers.lower);
    stub71_ = [];stub71_iter0 = place;for (stub71_i0=0; stub71_i0<stub71_iter0.length; stub71_i0++) {stub71__ = stub71_iter0[stub71_i0];{stub71_.push(0.0);}}
    centre = stub71_;
    for (k = 0; k < rows.length; k += 1) {
        row = (downward)? (rows[k]) : (rows[(rows.length - 1) - k]);
        if ((row.length == 1)) {
            continue;
        }
        stub74_seq = row;
        for (stub75_itr = 0; stub75_itr < stub74_seq.length; stub75_itr += 1) {
            point = stub74_seq[stub75_itr];
            others = beside[point];
            total = 0;
            stub72_seq = others;
            for (stub73_itr = 0; stub73_itr < stub72_seq.length; stub73_itr += 1) {
                other = stub72_seq[stub73_itr];
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
    var _, at, left, right, row, stub76_seq, stub77_itr, swapped;
    for (_ = 0; _ < 4; _ += 1) {
        swapped = false;
        stub76_seq = rows;
        for (stub77_itr = 0; stub77_itr < stub76_seq.length; stub77_itr += 1) {
            row = stub76_seq[stub77_itr];
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
    var a, b, beside, gain, stub78_seq, stub79_itr, stub80_seq, stub81_itr, stub82_seq, stub83_itr;
    gain = 0;
    stub82_seq = [layers.upper, layers.lower];
    for (stub83_itr = 0; stub83_itr < stub82_seq.length; stub83_itr += 1) {
        beside = stub82_seq[stub83_itr];
        stub80_seq = beside[left];
        for (stub81_itr = 0; stub81_itr < stub80_seq.length; stub81_itr += 1) {
            a = stub80_seq[stub81_itr];
            stub78_seq = beside[right];
            for (stub79_itr = 0; stub79_itr < stub78_seq.length; stub79_itr += 1) {
                b = stub78_seq[stub79_itr];
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
stub84_ = [24.0, 36.0];
RIM_GAP = stub84_[0];EXIT_GAP = stub84_[1];
LABEL_ROOM = 16.0;
STUB = 18.0;
place = function flx_place (widths, heights, links, exits, pins, before) {
    var against, bottoms, boxes, deepest, entries, height, layers, leaving, places, point, points, routes, row, rows, stub85_, stub86_, stub86_box, stub86_i0, stub86_iter0, stub87_, stub87_i0, stub87_iter0, stub87_k, stub88_, stub88_i0, stub88_iter0, stub89_, tops, waypoints, width, x, y;
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
    stub85_ = _row_edges(rows, heights, layers.pins);
    tops = stub85_[0];bottoms = stub85_[1];
    stub86_ = [];stub86_iter0 = _pyfunc_range(0, boxes, 1);for (stub86_i0=0; stub86_i0<stub86_iter0.length; stub86_i0++) {stub86_box = stub86_iter0[stub86_i0];{stub86_.push(((tops[layers.row[stub86_box]]) + (bottoms[layers.row[stub86_box]])) / 2);}}
    y = stub86_;
    leaving = ((exits === null))? ((function list_comprehension (iter0) {var res = [];var _, i0;for (i0=0; i0<iter0.length; i0++) {_ = iter0[i0];{res.push(0.0);}}return res;}).call(this, links)) : (exits);
    entries = _entries(layers, links, x, widths);
    places = new Places(layers, x, y, heights, tops, bottoms, leaving, entries);
    stub87_ = [];stub87_iter0 = _pyfunc_range(0, links.length, 1);for (stub87_i0=0; stub87_i0<stub87_iter0.length; stub87_i0++) {stub87_k = stub87_iter0[stub87_i0];{stub87_.push(_route(places, stub87_k, links[stub87_k][0], links[stub87_k][1]));}}
    routes = stub87_;
    width = 0.0;
    for (point = 0; point < x.length; point += 1) {
        width = Math.max(width, (x[point] + (((point < boxes))? (widths[point] / 2) : (0.0))));
    }
    points = _pyfunc_range(boxes, x.length, 1);
    stub88_ = [];stub88_iter0 = points;for (stub88_i0=0; stub88_i0<stub88_iter0.length; stub88_i0++) {point = stub88_iter0[stub88_i0];{stub88_.push([layers.row[point], x[point]]);}}
    waypoints = stub88_;
    row = layers.row.slice(0,boxes);
    height = bottoms[bottoms.length -1] + ((((layers.pins[rows[rows.length -1][0]])=="bottom"))? (0.0) : (STUB));
    stub89_ = [layers.reversed, layers.deepest];
    against = stub89_[0];deepest = stub89_[1];
    x = x.slice(0,boxes);
    return new Layout(x, y, routes, layers.direct, against, width, height, deepest, row, waypoints, tops, bottoms);
};

_row_edges = function flx__row_edges (rows, heights, pins) {
    var bottoms, k, point, stub90_seq, stub91_itr, tallest, tops, y;
    tops = [];
    bottoms = [];
    y = 0.0;
    for (k = 0; k < rows.length; k += 1) {
        if ((k > 0)) {
            y += _row_gap(rows[k - 1][0], rows[k][0], pins);
        }
        _pymeth_append.call(tops, y);
        tallest = 0.0;
        stub90_seq = rows[k];
        for (stub91_itr = 0; stub91_itr < stub90_seq.length; stub91_itr += 1) {
            point = stub90_seq[stub91_itr];
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
    var _, above, at, below, down, k, left, offset, offsets, points, rounds, row, strength, stub92_, stub92_at, stub92_i0, stub92_iter0, stub93_, stub93_i0, stub93_iter0, stub93_row, stub94_, stub94__, stub94_i0, stub94_iter0, stub95_, stub96_, up, widths, x;
    points = layers.row.length;
    stub92_ = [];stub92_iter0 = _pyfunc_range(0, points, 1);for (stub92_i0=0; stub92_i0<stub92_iter0.length; stub92_i0++) {stub92_at = stub92_iter0[stub92_i0];{stub92_.push(((stub92_at < layers.boxes))? (box_widths[stub92_at]) : (0.0));}}
    widths = stub92_;
    stub93_ = [];stub93_iter0 = rows;for (stub93_i0=0; stub93_i0<stub93_iter0.length; stub93_i0++) {stub93_row = stub93_iter0[stub93_i0];{stub93_.push(_offsets(stub93_row, layers.boxes, widths));}}
    offsets = stub93_;
    stub94_ = [];stub94_iter0 = _pyfunc_range(0, points, 1);for (stub94_i0=0; stub94_i0<stub94_iter0.length; stub94_i0++) {stub94__ = stub94_iter0[stub94_i0];{stub94_.push(0.0);}}
    x = stub94_;
    for (at = 0; at < rows.length; at += 1) {
        stub95_ = [rows[at], offsets[at]];
        row = stub95_[0];offset = stub95_[1];
        for (k = 0; k < row.length; k += 1) {
            x[row[k]] = offset[k] - (offset[offset.length -1] / 2);
        }
    }
    strength = _strengths(layers);
    above = [];
    below = [];
    for (at = 0; at < points; at += 1) {
        stub96_ = [layers.upper[at], layers.lower[at]];
        up = stub96_[0];down = stub96_[1];
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
    var apart, at, k, left, offsets, right, stub97_;
    at = 0.0;
    offsets = [0.0];
    for (k = 1; k < row.length; k += 1) {
        stub97_ = [row[k - 1], row[k]];
        left = stub97_[0];right = stub97_[1];
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
    var same, stub98_, stub98_i0, stub98_iter0, stub98_other;
    stub98_ = [];stub98_iter0 = others;for (stub98_i0=0; stub98_i0<stub98_iter0.length; stub98_i0++) {stub98_other = stub98_iter0[stub98_i0];if (!((strength[stub98_other]==strength[point]))) {continue;}{stub98_.push(stub98_other);}}
    same = stub98_;
    return ((same.length > 0))? (same) : (others);
};

_settle = function flx__settle (row, offset, beside, strength, x) {
    var at, base, before, count, k, other, own, point, pools, stub100_itr, stub101_seq, stub102_itr, stub103_tgt, stub99_seq, total, wish;
    pools = [];
    for (k = 0; k < row.length; k += 1) {
        point = row[k];
        total = 0.0;
        wish = 0.0;
        stub99_seq = beside[point];
        for (stub100_itr = 0; stub100_itr < stub99_seq.length; stub100_itr += 1) {
            other = stub99_seq[stub100_itr];
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
    stub101_seq = pools;
    for (stub102_itr = 0; stub102_itr < stub101_seq.length; stub102_itr += 1) {
        stub103_tgt = stub101_seq[stub102_itr];
        wish = stub103_tgt[0]; total = stub103_tgt[1]; count = stub103_tgt[2];
        base = wish / total;
        for (k = at; k < at + count; k += 1) {
            x[row[k]] = base + offset[k];
        }
        at += count;
    }
    return null;
};

_entries = function flx__entries (layers, links, x, widths) {
    var _, against, arriving, at, box, entries, first, gap, group, k, last, origins, rank, reach, source, span, stub104_, stub104__, stub104_i0, stub104_iter0, stub105_, stub106_, stub107_, stub107_i0, stub107_iter0, target, upper;
    stub104_ = [];stub104_iter0 = widths;for (stub104_i0=0; stub104_i0<stub104_iter0.length; stub104_i0++) {stub104__ = stub104_iter0[stub104_i0];{stub104_.push([]);}}
    arriving = stub104_;
    origins = [];
    for (k = 0; k < links.length; k += 1) {
        stub105_ = links[k];
        source = stub105_[0];target = stub105_[1];_ = stub105_[2];
        stub106_ = layers.trunk[k];
        first = stub106_[0];span = stub106_[1];
        against = layers.reversed[k];
        _pymeth_append.call(arriving[(against)? (source) : (target)], k);
        upper = (against)? (target) : (source);
        _pymeth_append.call(origins, x[((span > 0))? ((first + span) - 1) : (upper)]);
    }
    stub107_ = [];stub107_iter0 = links;for (stub107_i0=0; stub107_i0<stub107_iter0.length; stub107_i0++) {_ = stub107_iter0[stub107_i0];{stub107_.push(0.0);}}
    entries = stub107_;
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
    var against, begin, bottoms, first, layers, lower, out, point, points, row, span, stub108_, stub109_, tops, upper, x;
    stub108_ = [places.layers, places.x, places.tops, places.bottoms];
    layers = stub108_[0];x = stub108_[1];tops = stub108_[2];bottoms = stub108_[3];
    against = layers.reversed[k];
    upper = (against)? (target) : (source);
    lower = (against)? (source) : (target);
    stub109_ = layers.trunk[k];
    first = stub109_[0];span = stub109_[1];
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
