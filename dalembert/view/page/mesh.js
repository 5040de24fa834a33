// Triangles for the parts of bodies and joints.
const DETAIL = B + J > 120 ? 0.45 : 1; // coarser rounds where there are many
class Mesh {
  constructor() {
    this.v = [];
    this.i = [];
    this.n = 0;
  }
  vertex(p, n, c) {
    this.v.push(p[0], p[1], p[2], n[0], n[1], n[2], c[0], c[1], c[2]);
    return this.n++;
  }
  quad(a, b, c, d) {
    this.i.push(a, b, c, a, c, d);
  }
  // a surface of revolution about z; profile pieces [r0, z0, r1, z1] with normals [nr0, nz0, nr1, nz1]
  lathe(o, F, pieces, c, steps) {
    steps = Math.ceil(steps * DETAIL);
    for (const [p, n] of pieces) {
      let last = null;
      for (let k = 0; k <= steps; k++) {
        const a = (2 * Math.PI * k) / steps, out = add(scale(F[0], Math.cos(a)), F[1], Math.sin(a));
        const pair = [0, 1].map(e =>
          this.vertex(
            add(add(o, out, p[2 * e]), F[2], p[2 * e + 1]),
            add(scale(out, n[2 * e]), F[2], n[2 * e + 1]),
            c,
          ),
        );
        if (last) this.quad(last[0], last[1], pair[1], pair[0]);
        last = pair;
      }
    }
  }
  // part of a circle of radius r about (R, z = 0) in the profile
  arc(o, F, R, r, from, to, c, steps, n = 10) {
    n = Math.ceil(n * DETAIL);
    const pieces = [];
    for (let k = 0; k < n; k++) {
      const [a, b] = [k, k + 1].map(x => from + ((to - from) * x) / n);
      pieces.push([
        [R + r * Math.cos(a), r * Math.sin(a), R + r * Math.cos(b), r * Math.sin(b)],
        [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b)],
      ]);
    }
    this.lathe(o, F, pieces, c, steps);
  }
  // the kinds of parts that view/_shapes.py makes: ball, ring, rod, cone, tube, plate, line, mesh
  add(part) {
    const c = colour(part.c), h = Math.PI / 2;
    if (part.t === "ball") this.arc(part.o, across([0, 0, 1]), 0, part.r, -h, h, c, 28, 16);
    else if (part.t === "ring") this.arc(part.o, across(part.z), part.R, part.r, 0, 2 * Math.PI, c, 56, 14);
    else if (part.t === "rod") this.rod(part.a, part.b, part.r, c);
    else if (part.t === "cone") this.cone(part.a, part.b, part.r, c);
    else if (part.t === "tube") this.tube(part.o, across(part.z), part.R0, part.R1, part.h, c);
    else if (part.t === "plate") this.plate(part, c);
    else if (part.t === "line")
      for (let k = 1; k < part.pts.length; k++) this.rod(part.pts[k - 1], part.pts[k], part.r, c, 10);
    else if (part.t === "mesh") this.mesh(part, c);
  }
  rod(a, b, r, c, steps = 24) {
    const d = add(b, a, -1), L = size(d), F = across(L > 0 ? d : [0, 0, 1]), h = Math.PI / 2;
    this.lathe(a, F, [[[r, 0, r, L], [1, 0, 1, 0]]], c, steps);
    this.arc(a, F, 0, r, -h, 0, c, steps, 5);
    this.arc(b, F, 0, r, 0, h, c, steps, 5);
  }
  cone(a, b, r, c) {
    const d = add(b, a, -1), L = size(d), s = Math.hypot(L, r);
    const side = [[r, 0, 0, L], [L / s, r / s, L / s, r / s]], base = [[0, 0, r, 0], [0, -1, 0, -1]];
    this.lathe(a, across(d), [side, base], c, 28);
  }
  tube(o, F, R0, R1, h, c) {
    const e = Math.min(0.12 * (R1 - R0), 0.2 * h), z = h / 2, q = Math.SQRT1_2;
    const pieces = [
      [[R1, -z + e, R1, z - e], [1, 0, 1, 0]],
      [[R1, z - e, R1 - e, z], [q, q, q, q]],
      [[R1, e - z, R1 - e, -z], [q, -q, q, -q]],
      [[R0, z, R1 - e, z], [0, 1, 0, 1]],
      [[R0, -z, R1 - e, -z], [0, -1, 0, -1]],
    ];
    if (R0 > 0) pieces.push([[R0, -z, R0, z], [-1, 0, -1, 0]]);
    this.lathe(o, F, pieces, c, 40);
  }
  plate(part, c) {
    const X = part.x, Y = part.y, Z = cross(X, Y), o = part.o, P = part.pts, n = P.length,
      e = Math.min(0.22 * part.h, 0.3 * part.r);
    const outline = []; // corner, outward direction
    for (let k = 0; k < n; k++) {
      const turn = (a, b) => Math.atan2(b[1] - a[1], b[0] - a[0]) - Math.PI / 2;
      let from = 0, to = 2 * Math.PI;
      if (n > 1) {
        from = turn(P[(k + n - 1) % n], P[k]);
        to = turn(P[k], P[(k + 1) % n]);
        while (to < from) to += 2 * Math.PI;
      }
      const steps = Math.max(2, Math.ceil((to - from) / 0.09));
      for (let s = 0; s <= steps; s++) {
        const a = from + ((to - from) * s) / steps;
        outline.push([P[k], [Math.cos(a), Math.sin(a)]]);
      }
    }
    const point = ([p, d], r, z) => add(add(add(o, X, p[0] + r * d[0]), Y, p[1] + r * d[1]), Z, z);
    const normal = ([, d], up) => unit(add(add(scale(X, d[0]), Y, d[1]), Z, up));
    const z = part.h / 2,
      bands = [
        [part.r, e - z, part.r, z - e, 0],
        [part.r, z - e, part.r - e, z, 1],
        [part.r, e - z, part.r - e, -z, -1],
      ];
    for (const [r0, z0, r1, z1, up] of bands) {
      let last = null;
      for (let k = 0; k <= outline.length; k++) {
        const q = outline[k % outline.length], m = normal(q, up);
        const pair = [this.vertex(point(q, r0, z0), m, c), this.vertex(point(q, r1, z1), m, c)];
        if (last) this.quad(last[0], last[1], pair[1], pair[0]);
        last = pair;
      }
    }
    for (const s of [1, -1]) {
      const m = scale(Z, s), middle = this.vertex(add(o, Z, s * z), m, c),
        rim = outline.map(q => this.vertex(point(q, part.r - e, s * z), m, c));
      rim.forEach((v, k) => this.i.push(middle, v, rim[(k + 1) % rim.length]));
    }
  }
  mesh(part, c) {
    for (const f of part.f)
      for (let k = 2; k < f.length; k++) {
        const p = [f[0], f[k - 1], f[k]].map(v => part.v[v]),
          n = unit(cross(add(p[1], p[0], -1), add(p[2], p[0], -1)));
        this.i.push(...p.map(q => this.vertex(q, n, c)));
      }
  }
}
