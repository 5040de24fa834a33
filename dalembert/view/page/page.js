// The page's own program: plain WebGL 2, no library, nothing is fetched. The scene comes from view/_scene.py.
(() => {
"use strict";
const $ = id => document.getElementById(id);
const S = JSON.parse($("scene").textContent);
const floats = text => new Float32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
const make = (tag, parent, set = {}) => { const e = Object.assign(document.createElement(tag), set); parent.append(e); return e; };

const t = floats(S.t), T = t.length, B = S.bodies.length - 1, J = S.joints.length;
const places = floats(S.places), force = floats(S.force), torque = floats(S.torque), inJoint = floats(S.in_joint);
const centres = floats(S.centre), plane = S.space === "plane", tEnd = t[T - 1], t0 = t[0];

// ---- vectors and matrices (columns first) -----------------------------------------------------------------------
const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const scale = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
const size = a => Math.hypot(a[0], a[1], a[2]);
const unit = a => { const n = size(a); return n > 0 ? scale(a, 1 / n) : [0, 0, 1]; };
const across = z => { // x, y that make a frame with z
  z = unit(z); const k = [0, 1, 2].reduce((b, i) => Math.abs(z[i]) < Math.abs(z[b]) ? i : b, 0);
  const e = [0, 0, 0]; e[k] = 1; const x = unit(add(e, z, -dot(z, e))); return [x, cross(z, x), z];
};
const mul = (a, b) => { const o = new Float32Array(16);
  for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++) { let s = 0; for (let k = 0; k < 4; k++) s += a[k * 4 + r] * b[c * 4 + k]; o[c * 4 + r] = s; }
  return o; };
const lookAt = (eye, to, up) => { const z = unit(add(eye, to, -1)), x = unit(cross(up, z)), y = cross(z, x);
  return new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]); };
const perspective = (f, a, n, r) => new Float32Array([f / a, 0, 0, 0, 0, f, 0, 0, 0, 0, (r + n) / (n - r), -1, 0, 0, 2 * r * n / (n - r), 0]);
const ortho = (w, h, n, r) => new Float32Array([1 / w, 0, 0, 0, 0, 1 / h, 0, 0, 0, 0, -2 / (r - n), 0, 0, 0, -(r + n) / (r - n), 1]);
const basis = (x, y, z, o) => new Float32Array([...x, 0, ...y, 0, ...z, 0, ...o, 1]);
const poseMatrix = (p, q) => { const [w, x, y, z] = q;
  return new Float32Array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0, 2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0, p[0], p[1], p[2], 1]); };
const at = (M, p) => [0, 1, 2].map(r => M[r] * p[0] + M[4 + r] * p[1] + M[8 + r] * p[2] + M[12 + r]);
const colour = hex => [1, 3, 5].map(k => Math.pow(parseInt(hex.slice(k, k + 2), 16) / 255, 2.2));
const nice = x => { const e = Math.pow(10, Math.floor(Math.log10(x))), m = x / e; return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * e; };
const short = x => { const a = Math.abs(x); return a === 0 ? "0" : a >= 1e5 || a < 1e-3 ? x.toExponential(1).replace("e+", "e") : String(+x.toPrecision(4)); };

// ---- meshes from parts ------------------------------------------------------------------------------------------
const DETAIL = B + J > 120 ? 0.45 : 1; // coarser rounds where there are many
class Mesh {
  constructor() { this.v = []; this.i = []; this.n = 0; }
  vertex(p, n, c) { this.v.push(p[0], p[1], p[2], n[0], n[1], n[2], c[0], c[1], c[2]); return this.n++; }
  quad(a, b, c, d) { this.i.push(a, b, c, a, c, d); }
  // a surface of revolution about z; profile pieces [r0, z0, r1, z1] with normals [nr0, nz0, nr1, nz1]
  lathe(o, F, pieces, c, steps) {
    steps = Math.ceil(steps * DETAIL);
    for (const [p, n] of pieces) {
      let last = null;
      for (let k = 0; k <= steps; k++) {
        const a = 2 * Math.PI * k / steps, out = add(scale(F[0], Math.cos(a)), F[1], Math.sin(a));
        const pair = [0, 1].map(e => this.vertex(add(add(o, out, p[2 * e]), F[2], p[2 * e + 1]), add(scale(out, n[2 * e]), F[2], n[2 * e + 1]), c));
        if (last) this.quad(last[0], last[1], pair[1], pair[0]);
        last = pair;
      }
    }
  }
  arc(o, F, R, r, from, to, c, steps, n = 10) { n = Math.ceil(n * DETAIL); // part of a circle of radius r about (R, z = 0) in the profile
    const pieces = [];
    for (let k = 0; k < n; k++) {
      const [a, b] = [k, k + 1].map(x => from + (to - from) * x / n);
      pieces.push([[R + r * Math.cos(a), r * Math.sin(a), R + r * Math.cos(b), r * Math.sin(b)], [Math.cos(a), Math.sin(a), Math.cos(b), Math.sin(b)]]);
    }
    this.lathe(o, F, pieces, c, steps);
  }
  add(part) {
    const c = colour(part.c), h = Math.PI / 2;
    if (part.t === "ball") this.arc(part.o, across([0, 0, 1]), 0, part.r, -h, h, c, 28, 16);
    else if (part.t === "ring") this.arc(part.o, across(part.z), part.R, part.r, 0, 2 * Math.PI, c, 56, 14);
    else if (part.t === "rod") this.rod(part.a, part.b, part.r, c);
    else if (part.t === "cone") { const F = across(add(part.b, part.a, -1)), L = size(add(part.b, part.a, -1)), s = Math.hypot(L, part.r);
      this.lathe(part.a, F, [[[part.r, 0, 0, L], [L / s, part.r / s, L / s, part.r / s]], [[0, 0, part.r, 0], [0, -1, 0, -1]]], c, 28); }
    else if (part.t === "tube") this.tube(part.o, across(part.z), part.R0, part.R1, part.h, c);
    else if (part.t === "plate") this.plate(part, c);
    else if (part.t === "line") for (let k = 1; k < part.pts.length; k++) this.rod(part.pts[k - 1], part.pts[k], part.r, c, 10);
    else if (part.t === "mesh") this.mesh(part, c);
  }
  rod(a, b, r, c, steps = 24) {
    const d = add(b, a, -1), L = size(d), F = across(L > 0 ? d : [0, 0, 1]), h = Math.PI / 2;
    this.lathe(a, F, [[[r, 0, r, L], [1, 0, 1, 0]]], c, steps);
    this.arc(a, F, 0, r, -h, 0, c, steps, 5); this.arc(b, F, 0, r, 0, h, c, steps, 5);
  }
  tube(o, F, R0, R1, h, c) {
    const e = Math.min(0.12 * (R1 - R0), 0.2 * h), z = h / 2, q = Math.SQRT1_2;
    const pieces = [[[R1, -z + e, R1, z - e], [1, 0, 1, 0]], [[R1, z - e, R1 - e, z], [q, q, q, q]], [[R1, e - z, R1 - e, -z], [q, -q, q, -q]],
      [[R0, z, R1 - e, z], [0, 1, 0, 1]], [[R0, -z, R1 - e, -z], [0, -1, 0, -1]]];
    if (R0 > 0) pieces.push([[R0, -z, R0, z], [-1, 0, -1, 0]]);
    this.lathe(o, F, pieces, c, 40);
  }
  plate(part, c) {
    const X = part.x, Y = part.y, Z = cross(X, Y), o = part.o, P = part.pts, n = P.length, e = Math.min(0.22 * part.h, 0.3 * part.r);
    const outline = []; // corner, outward direction
    for (let k = 0; k < n; k++) {
      const turn = (a, b) => Math.atan2(b[1] - a[1], b[0] - a[0]) - Math.PI / 2;
      let from = 0, to = 2 * Math.PI;
      if (n > 1) { from = turn(P[(k + n - 1) % n], P[k]); to = turn(P[k], P[(k + 1) % n]); while (to < from) to += 2 * Math.PI; }
      const steps = Math.max(2, Math.ceil((to - from) / 0.09));
      for (let s = 0; s <= steps; s++) { const a = from + (to - from) * s / steps; outline.push([P[k], [Math.cos(a), Math.sin(a)]]); }
    }
    const point = ([p, d], r, z) => add(add(add(o, X, p[0] + r * d[0]), Y, p[1] + r * d[1]), Z, z);
    const normal = ([, d], up) => unit(add(add(scale(X, d[0]), Y, d[1]), Z, up));
    const z = part.h / 2, bands = [[part.r, e - z, part.r, z - e, 0], [part.r, z - e, part.r - e, z, 1], [part.r, e - z, part.r - e, -z, -1]];
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
      const m = scale(Z, s), middle = this.vertex(add(o, Z, s * z), m, c), rim = outline.map(q => this.vertex(point(q, part.r - e, s * z), m, c));
      rim.forEach((v, k) => this.i.push(middle, v, rim[(k + 1) % rim.length]));
    }
  }
  mesh(part, c) {
    for (const f of part.f) for (let k = 2; k < f.length; k++) {
      const p = [f[0], f[k - 1], f[k]].map(v => part.v[v]), n = unit(cross(add(p[1], p[0], -1), add(p[2], p[0], -1)));
      this.i.push(...p.map(q => this.vertex(q, n, c)));
    }
  }
}

// ---- drawing ----------------------------------------------------------------------------------------------------
const canvas = $("view"), gl = canvas.getContext("webgl2", { antialias: true, alpha: false, preserveDrawingBuffer: true });
if (!gl) { $("problem").hidden = false; $("problem").textContent = "This page draws with WebGL 2, which this browser does not offer."; }
const program = (vs, fs) => {
  const p = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vs], [gl.FRAGMENT_SHADER, fs]]) {
    const s = gl.createShader(kind); gl.shaderSource(s, "#version 300 es\nprecision highp float;precision highp sampler2DShadow;\n" + text); gl.compileShader(s);
    if (!gl.getShaderParameter(s, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(s));
    gl.attachShader(p, s);
  }
  gl.linkProgram(p);
  const names = {}; const count = gl.getProgramParameter(p, gl.ACTIVE_UNIFORMS);
  for (let k = 0; k < count; k++) { const n = gl.getActiveUniform(p, k).name; names[n] = gl.getUniformLocation(p, n); }
  return { p, u: names };
};
const SHADOW = `
uniform sampler2DShadow shadow;
float lit(vec4 s) {
  vec3 c = s.xyz / s.w * .5 + .5; float sum = 0.;
  if (any(lessThan(c, vec3(0))) || any(greaterThan(c, vec3(1)))) return 1.;
  for (int x = -1; x <= 1; x++) for (int y = -1; y <= 1; y++) sum += texture(shadow, vec3(c.xy + vec2(x, y) * 1.3 / 2048., c.z - .0012));
  return sum / 9.;
}`;
let solid, floorP, ribbon, depthP;
const shadowMap = {};
function start() {
  solid = program(`layout(location=0) in vec3 a; layout(location=1) in vec3 n; layout(location=2) in vec3 c;
    uniform mat4 M, V, L; uniform vec3 flatten; out vec3 w, m, k; out vec4 s;
    void main() { vec4 p = M * vec4(a, 1); w = p.xyz; m = mat3(M) * (n * flatten); k = c; s = L * p; gl_Position = V * p; }`,
    `in vec3 w, m, k; in vec4 s; uniform vec3 eye, sun, up, ambient, tint; uniform float parallel, glow; uniform vec3 ahead; out vec4 o;` + SHADOW + `
    void main() {
      vec3 n = normalize(m), v = parallel > .5 ? -ahead : normalize(eye - w); if (dot(n, v) < 0.) n = -n;
      vec3 base = tint.x >= 0. ? tint : k; float d = max(dot(n, sun), 0.), on = lit(s);
      float sky = .5 + .5 * dot(n, up); vec3 h = normalize(sun + v);
      vec3 c = base * (ambient * mix(.62, 1., sky) + .92 * d * on) + vec3(.16) * pow(max(dot(n, h), 0.), 42.) * on;
      c += base * .22 * pow(1. - max(dot(n, v), 0.), 3.); c = mix(c, base * 1.5 + .08, glow);
      o = vec4(pow(clamp(c, 0., 1.), vec3(1. / 2.2)), 1); }`);
  depthP = program(`layout(location=0) in vec3 a; uniform mat4 M, L; void main() { gl_Position = L * M * vec4(a, 1); }`, `void main() {}`);
  floorP = program(`uniform mat4 V, L; uniform vec3 o, x, y; uniform float reach; out vec2 q; out vec3 w; out vec4 s;
    void main() { vec2 e = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2. - 1.; w = o + (x * e.x + y * e.y) * reach; q = e; s = L * vec4(w, 1); gl_Position = V * vec4(w, 1); }`,
    `in vec2 q; in vec3 w; in vec4 s; uniform vec3 x, y, ground, lines; uniform float cell, seen; out vec4 o;` + SHADOW + `
    float grid(vec2 p, float width) { vec2 d = fwidth(p), g = abs(fract(p - .5) - .5) / max(d, vec2(1e-6)); vec2 k = 1. - smoothstep(width - .5, width + .5, g); k *= 1. - smoothstep(.25, .6, d); return max(k.x, k.y); }
    void main() { vec2 p = vec2(dot(w, x), dot(w, y)) / cell; float far = smoothstep(.30, .98, length(q));
      vec3 c = mix(ground, lines, max(.55 * grid(p, .6), grid(p / 5., .9)) * (1. - far)); c *= mix(1., .80, (1. - lit(s)) * (1. - far)); o = vec4(c, seen * (1. - far)); }`);
  ribbon = program(`layout(location=0) in vec3 a; layout(location=1) in vec3 b; uniform mat4 V; uniform vec2 screen; uniform float width, now; out float past;
    void main() { vec4 p = V * vec4(a, 1), q = V * vec4(b, 1); bool far = (gl_VertexID & 1) == 1; float side = gl_VertexID >> 1 == 0 ? 1. : -1.;
      vec2 d = (q.xy / q.w - p.xy / p.w) * screen; d = length(d) > 1e-6 ? normalize(d) : vec2(1, 0); vec4 r = far ? q : p;
      r.xy += (vec2(-d.y, d.x) * side + d * (far ? .5 : -.5)) * width / screen * r.w; r.z -= 2e-4 * r.w; past = float(gl_InstanceID) <= now ? 1. : 0.; gl_Position = r; }`,
    `in float past; uniform vec3 tone; uniform float faint; out vec4 o; void main() { o = vec4(tone, past > .5 ? 1. : faint); }`);
  shadowMap.t = gl.createTexture(); gl.bindTexture(gl.TEXTURE_2D, shadowMap.t);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, 2048, 2048);
  for (const [k, v] of [[gl.TEXTURE_MIN_FILTER, gl.LINEAR], [gl.TEXTURE_MAG_FILTER, gl.LINEAR], [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE], [gl.TEXTURE_COMPARE_FUNC, gl.LEQUAL]]) gl.texParameteri(gl.TEXTURE_2D, k, v);
  shadowMap.f = gl.createFramebuffer(); gl.bindFramebuffer(gl.FRAMEBUFFER, shadowMap.f);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, shadowMap.t, 0);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
}
const upload = mesh => {
  if (!mesh.i.length) return null;
  const vao = gl.createVertexArray(); gl.bindVertexArray(vao);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer()); gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(mesh.v), gl.STATIC_DRAW);
  for (let k = 0; k < 3; k++) { gl.enableVertexAttribArray(k); gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 36, 12 * k); }
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer()); gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint32Array(mesh.i), gl.STATIC_DRAW);
  gl.bindVertexArray(null);
  return { vao, n: mesh.i.length };
};
const path = (points, dynamic) => {
  const vao = gl.createVertexArray(), buffer = gl.createBuffer(); gl.bindVertexArray(vao);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer); gl.bufferData(gl.ARRAY_BUFFER, points, dynamic ? gl.DYNAMIC_DRAW : gl.STATIC_DRAW);
  for (let k = 0; k < 2; k++) { gl.enableVertexAttribArray(k); gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 12, 12 * k); gl.vertexAttribDivisor(k, 1); }
  gl.bindVertexArray(null);
  return { vao, buffer, n: points.length / 3 - 1 };
};

// ---- state ------------------------------------------------------------------------------------------------------
const state = { time: t0, playing: false, speed: 1, selected: -1, bodies: true, joints: true, forces: true, torques: false, traces: true, names: J <= 16 };
// where the reader was before a live page read itself again; a page in a report has no storage
const saved = S.live ? JSON.parse(sessionStorage.getItem("dalembert:" + S.title) || "null") : null;
const U = S.up, horizontal = across(U), E1 = plane ? cross(U, [0, 0, 1]) : horizontal[0], E2 = plane ? U : horizontal[1];
const azimuth = plane ? 0 : Math.atan2(dot(S.look, E2), dot(S.look, E1));
const camera = { yaw: azimuth + 0.5, pitch: 0.36, zoom: 1, pan: [0, 0, 0] };
const home = { ...camera };
if (saved) { Object.assign(camera, saved.camera); state.time = Math.min(Math.max(saved.time, t0), tEnd); }
let dirty = true, frame = { k: 0, s: 0 }, poses = [], centre = [0, 0, 0], VP = null, eye = [0, 0, 0], ahead = [0, 0, -1], right = [1, 0, 0], top = [0, 1, 0], pixel = 1;

function locate(time) { // the saved frame before `time`, and the share of the way to the next
  let lo = 0, hi = T - 1;
  while (hi - lo > 1) { const m = (lo + hi) >> 1; if (t[m] <= time) lo = m; else hi = m; }
  const gap = t[hi] - t[lo];
  return { k: lo, s: gap > 0 ? Math.min(Math.max((time - t[lo]) / gap, 0), 1) : 0 };
}
const mix = (array, width, k, s, offset = 0, stride = width) => {
  const a = k * stride + offset, b = Math.min(k + 1, T - 1) * stride + offset, out = new Array(width);
  for (let i = 0; i < width; i++) out[i] = array[a + i] * (1 - s) + array[b + i] * s;
  return out;
};
function pose(body, k, s) {
  const a = (k * B + body) * 7, b = (Math.min(k + 1, T - 1) * B + body) * 7; let d = 0;
  for (let i = 3; i < 7; i++) d += places[a + i] * places[b + i];
  const q = [3, 4, 5, 6].map(i => places[a + i] * (1 - s) + (d < 0 ? -1 : 1) * places[b + i] * s), n = Math.hypot(...q);
  return poseMatrix([0, 1, 2].map(i => places[a + i] * (1 - s) + places[b + i] * s), q.map(x => x / n));
}
const IDENTITY = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
function pick() {
  frame = locate(state.time);
  poses = []; for (let b = 0; b < B; b++) poses.push(pose(b, frame.k, frame.s));
  poses.push(IDENTITY);
  centre = mix(centres, 3, frame.k, frame.s);
}

// ---- camera -----------------------------------------------------------------------------------------------------
const FOV = 2.9; // cot of half the angle of view
function aim() {
  const w = canvas.width, h = canvas.height, aspect = w / h, R = S.radius;
  // parts of the window that are covered by writing: the machine is fitted into the rest
  const room = { x: 0.88, y: 0.74 };
  const target = add(centre, camera.pan);
  if (plane) {
    ahead = [0, 0, -1]; right = E1; top = U;
    const hw = Math.max(...S.reach.map(c => Math.abs(dot(c, right)))), hh = Math.max(...S.reach.map(c => Math.abs(dot(c, top))));
    const half = Math.max(hh / room.y, hw / room.x / aspect, 1e-9) / camera.zoom;
    eye = add(target, [0, 0, 4 * R]); pixel = 2 * half / h;
    VP = mul(ortho(half * aspect, half, 0.01 * R, 12 * R), lookAt(eye, target, top));
    return;
  }
  const c = Math.cos(camera.pitch), out = add(add(scale(E1, c * Math.cos(camera.yaw)), E2, c * Math.sin(camera.yaw)), U, Math.sin(camera.pitch));
  ahead = scale(out, -1); right = unit(cross(ahead, U)); top = cross(right, ahead);
  let need = 0;
  for (const p of S.reach) { const depth = dot(p, out); need = Math.max(need, depth + FOV * Math.abs(dot(p, right)) / room.x / aspect, depth + FOV * Math.abs(dot(p, top)) / room.y); }
  const away = need / camera.zoom;
  eye = add(target, out, away); pixel = 2 * away / FOV / h;
  VP = mul(perspective(FOV, aspect, Math.max(away - 3 * R, 0.02 * away), away + 12 * R), lookAt(eye, target, U));
}
const project = p => { const x = [0, 1, 3].map(r => VP[r] * p[0] + VP[4 + r] * p[1] + VP[8 + r] * p[2] + VP[12 + r]); return [(x[0] / x[2] * .5 + .5) * canvas.clientWidth, (.5 - x[1] / x[2] * .5) * canvas.clientHeight, x[2]]; };

// ---- the picture ------------------------------------------------------------------------------------------------
const THEMES = { light: { back: [0.933, 0.945, 0.961], ground: [0.985, 0.988, 0.993], lines: [0.80, 0.835, 0.875], ambient: [0.50, 0.52, 0.56] },
  dark: { back: [0.063, 0.082, 0.106], ground: [0.118, 0.145, 0.18], lines: [0.23, 0.28, 0.34], ambient: [0.42, 0.45, 0.52] } };
let theme = THEMES.light, bodyMeshes = [], jointMeshes = [], traces = [], springs = [], shaft, head, bar;
const SUN = plane ? unit([...scale(add(scale(U, .8), E1, -.5), 1).slice(0, 2), 1.6]) : null;
const sunNow = () => plane ? SUN : unit(add(add(scale(U, 1.5), right, -0.75), ahead, -0.55));
const typicalForce = S.typical_force, typicalTorque = S.typical_torque;
const gainOf = (typical) => typical > 0 ? S.arrow_length / typical : 0;

function build() {
  start();
  bodyMeshes = S.bodies.map(b => { const m = new Mesh(); b.parts.forEach(p => m.add(p)); return upload(m); });
  jointMeshes = S.joints.map(j => j.parts.map(g => { const m = new Mesh(); g.parts.forEach(p => m.add(p)); return { body: g.body, mesh: upload(m) }; }));
  const unitMesh = f => { const m = new Mesh(); f(m); return upload(m); };
  shaft = unitMesh(m => m.tube([0, 0, .5], across([0, 0, 1]), 0, 1, 1, [1, 1, 1])); bar = shaft;
  head = unitMesh(m => m.add({ t: "cone", a: [0, 0, 0], b: [0, 0, 1], r: 1, c: "#ffffff" }));
  traces = S.traces.map(tr => {
    const pts = new Float32Array(3 * T);
    for (let k = 0; k < T; k++) pts.set(at(pose(tr.body, k, 0), tr.point), 3 * k);
    return { ...path(pts), tone: colour(tr.c).map(x => Math.pow(x, 1 / 2.2)) };
  });
  springs = S.links.filter(l => l.t === "spring").map(l => ({ ...l, ...path(new Float32Array(3 * 161), true) }));
}
function* items() { // mesh, matrix, inverse squares of its scales, colour instead of its own, joint number
  const one = [1, 1, 1];
  if (state.bodies) for (let b = 0; b <= B; b++) if (bodyMeshes[b]) yield [bodyMeshes[b], poses[b], one, null, -1];
  for (let j = 0; j < J; j++) if (state.joints) for (const g of jointMeshes[j]) if (g.mesh) yield [g.mesh, poses[g.body], one, null, j];
  for (const l of S.links) if (l.t === "rod") yield stick(at(poses[l.i], l.a), at(poses[l.j], l.b), l.r, colour(l.c));
}
function stick(a, b, r, tint) {
  const d = add(b, a, -1), L = Math.max(size(d), 1e-12), [x, y, z] = across(d);
  return [bar, basis(scale(x, r), scale(y, r), scale(z, L), a), [1 / (r * r), 1 / (r * r), 1 / (L * L)], tint, -1];
}
function* arrows() {
  const r = S.arrow, kinds = [];
  if (state.forces) kinds.push([force, gainOf(typicalForce), false]);
  if (state.torques) kinds.push([torque, gainOf(typicalTorque), true]);
  for (let j = 0; j < J; j++) {
    if (!S.joints[j].placed) continue;
    const tint = colour(S.colours[S.joints[j].solvability]).map(x => x * 0.82);
    for (const [values, gain, twin] of kinds) {
      const f = scale(mix(values, 3, frame.k, frame.s, 3 * j, 3 * J), gain), L = size(f);
      if (!(L > 0.6 * r)) continue;
      const F = across(f), a = plane ? add(at(poses[S.joints[j].j], S.joints[j].point), [0, 0, S.lift]) : at(poses[S.joints[j].j], S.joints[j].point);
      const hl = Math.min(4.6 * r, 0.6 * L), hw = hl * 0.42, end = L - hl, thin = Math.min(r, hw * .5);
      yield [shaft, basis(scale(F[0], thin), scale(F[1], thin), scale(F[2], Math.max(end, 1e-9)), a), [1 / thin ** 2, 1 / thin ** 2, 1 / Math.max(end, 1e-9) ** 2], tint, -2];
      for (const back of twin ? [0, 0.75 * hl] : [0])
        yield [head, basis(scale(F[0], hw), scale(F[1], hw), scale(F[2], hl), add(a, F[2], end - back)), [1 / hw ** 2, 1 / hw ** 2, 1 / hl ** 2], tint, -2];
    }
  }
}
function drawAll(P, list) {
  for (const [mesh, M, flat, tint, joint] of list) {
    gl.uniformMatrix4fv(P.u.M, false, M);
    if (P === solid) {
      gl.uniform3fv(P.u.flatten, flat); gl.uniform3fv(P.u.tint, tint || [-1, 0, 0]);
      gl.uniform1f(P.u.glow, joint >= 0 && joint === state.selected ? 0.35 : 0);
    }
    gl.bindVertexArray(mesh.vao); gl.drawElements(gl.TRIANGLES, mesh.n, gl.UNSIGNED_INT, 0);
  }
}
function draw() {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), w = Math.max(1, Math.round(canvas.clientWidth * ratio)), h = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  pick(); aim();
  const sun = sunNow(), R = S.radius, list = [...items()], target = add(centre, camera.pan);
  const reachShadow = 1.5 * R;
  const L = mul(ortho(reachShadow, reachShadow, 0, 8 * R), lookAt(add(target, sun, 4 * R), target, Math.abs(dot(sun, U)) > .99 ? E1 : U));
  gl.enable(gl.DEPTH_TEST); gl.disable(gl.BLEND);
  gl.bindFramebuffer(gl.FRAMEBUFFER, shadowMap.f); gl.viewport(0, 0, 2048, 2048); gl.clear(gl.DEPTH_BUFFER_BIT);
  gl.useProgram(depthP.p); gl.uniformMatrix4fv(depthP.u.L, false, L); drawAll(depthP, list);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null); gl.viewport(0, 0, w, h);
  gl.clearColor(...theme.back, 1); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, shadowMap.t);
  // the floor, or in the plane the board behind the machine
  gl.useProgram(floorP.p);
  const N = plane ? [0, 0, 1] : U, level = plane ? -S.lift : S.floor;
  const o = add(target, N, level - dot(target, N)), below = dot(add(eye, o, -1), N) < 0;
  for (const [k, v] of [["V", VP], ["L", L]]) gl.uniformMatrix4fv(floorP.u[k], false, v);
  for (const [k, v] of [["o", o], ["x", E1], ["y", E2], ["ground", theme.ground], ["lines", theme.lines]]) gl.uniform3fv(floorP.u[k], v);
  gl.uniform1f(floorP.u.reach, (plane ? 4.5 : 4) * R / Math.min(camera.zoom, 1)); gl.uniform1f(floorP.u.cell, S.cell); gl.uniform1f(floorP.u.seen, below ? 0.35 : 1); gl.uniform1i(floorP.u.shadow, 0);
  gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); gl.depthMask(false); gl.bindVertexArray(null); gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4); gl.depthMask(true);
  gl.disable(gl.BLEND); gl.useProgram(solid.p);
  for (const [k, v] of [["V", VP], ["L", L]]) gl.uniformMatrix4fv(solid.u[k], false, v);
  for (const [k, v] of [["eye", eye], ["sun", sun], ["up", plane ? [0, 0, 1] : U], ["ambient", theme.ambient], ["ahead", ahead]]) gl.uniform3fv(solid.u[k], v);
  gl.uniform1f(solid.u.parallel, plane ? 1 : 0); gl.uniform1i(solid.u.shadow, 0);
  drawAll(solid, list); drawAll(solid, arrows());
  gl.useProgram(ribbon.p); gl.enable(gl.BLEND); gl.uniformMatrix4fv(ribbon.u.V, false, VP); gl.uniform2f(ribbon.u.screen, w, h);
  const strip = (line, tone, width, now, faint) => { gl.uniform3fv(ribbon.u.tone, tone); gl.uniform1f(ribbon.u.width, width * ratio); gl.uniform1f(ribbon.u.now, now); gl.uniform1f(ribbon.u.faint, faint);
    gl.bindVertexArray(line.vao); gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, line.n); };
  if (state.traces) for (const line of traces) strip(line, line.tone, 2.2, frame.k, 0.22);
  for (const l of springs) { coil(l); strip(l, colour(l.c).map(x => Math.pow(x, 1 / 2.2)), 2.4, 1e9, 1); }
  gl.bindVertexArray(null);
  label(); follow();
}
function coil(l) { // a helix between two points; in the plane its shadow, a wave
  const a = at(poses[l.i], l.a), b = at(poses[l.j], l.b), d = add(b, a, -1), L = size(d), F = plane ? [unit(cross([0, 0, 1], d)), [0, 0, 1], unit(d)] : across(d), n = 160, pts = new Float32Array(3 * (n + 1));
  for (let k = 0; k <= n; k++) {
    const s = k / n, on = s < .1 || s > .9 ? 0 : Math.min(1, (s - .1) / .03, (.9 - s) / .03), u = Math.min(Math.max((s - .1) / .8, 0), 1), turn = 2 * Math.PI * 9 * u;
    pts.set(add(add(add(a, F[2], L * s), F[0], on * l.r * Math.sin(turn)), F[1], plane ? 0 : on * l.r * Math.cos(turn)), 3 * k);
  }
  gl.bindBuffer(gl.ARRAY_BUFFER, l.buffer); gl.bufferSubData(gl.ARRAY_BUFFER, 0, pts);
}

// ---- names at joints --------------------------------------------------------------------------------------------
const tags = [];
function makeTags() {
  const groups = [];
  S.joints.forEach((j, k) => {
    if (!j.placed) return;
    const here = at(B > j.j ? pose(j.j, 0, 0) : IDENTITY, j.point), near = groups.find(g => size(add(g.here, here, -1)) < 1e-3 * S.radius);
    if (near) near.names.push(j.name); else groups.push({ here, joint: k, names: [j.name] });
  });
  for (const g of groups) { const e = make("span", $("labels"), { textContent: g.names.slice(0, 4).join(", ") + (g.names.length > 4 ? " …" : "") }); tags.push({ e, joint: g.joint }); }
}
function label() {
  $("labels").style.display = state.names ? "" : "none";
  if (!state.names) return;
  for (const { e, joint } of tags) { const j = S.joints[joint], [x, y] = project(at(poses[j.j], j.point)); e.style.transform = `translate(${x.toFixed(1)}px,${y.toFixed(1)}px) translate(9px,-20px)`; }
}

// ---- side plots -------------------------------------------------------------------------------------------------
const plots = [];
class Plot {
  constructor(panel) {
    this.box = make("div", $("plots"), { className: "plot" });
    this.title = make("h3", this.box); this.canvas = make("canvas", this.box); this.keys = make("div", this.box, { className: "keys" });
    this.still = document.createElement("canvas");
    const to = e => { const b = this.canvas.getBoundingClientRect(); seek(t0 + (tEnd - t0) * (e.clientX - b.left - 42) / (b.width - 50)); };
    this.canvas.addEventListener("pointerdown", e => { this.canvas.setPointerCapture(e.pointerId); pause(); to(e); });
    this.canvas.addEventListener("pointermove", e => { if (e.buttons) to(e); });
    this.set(panel); plots.push(this);
  }
  set(panel) {
    this.panel = panel; this.box.style.display = panel && panel.curves.length ? "" : "none"; if (!panel) return;
    this.title.replaceChildren(); make("span", this.title, { textContent: panel.title }); make("span", this.title, { textContent: panel.unit === "1" ? "" : panel.unit });
    this.keys.replaceChildren();
    this.values = panel.curves.map(c => { const k = make("span", this.keys), i = make("i", k); i.style.color = c.c; if (c.dashed) i.className = "dashed"; make("span", k, { textContent: c.label }); return make("span", k); });
    this.stale = true;
  }
  paint() {
    const ratio = window.devicePixelRatio || 1, W = this.canvas.clientWidth, H = this.canvas.clientHeight; if (!W) return;
    for (const c of [this.canvas, this.still]) { c.width = W * ratio; c.height = H * ratio; }
    this.W = W; this.H = H; this.ratio = ratio;
    const g = this.still.getContext("2d"), css = getComputedStyle(document.documentElement); g.scale(ratio, ratio);
    const log = this.panel.log, f = log ? x => Math.log10(Math.max(x, 1e-18)) : x => x;
    let lo = Infinity, hi = -Infinity;
    for (const c of this.panel.curves) for (const y of c.data) if (Number.isFinite(y)) { const v = f(y); if (v < lo) lo = v; if (v > hi) hi = v; }
    if (!(hi >= lo)) { lo = 0; hi = 1; }
    if (log) { lo = Math.floor(lo); hi = Math.max(Math.ceil(hi), lo + 1); } else { const most = Math.max(Math.abs(lo), Math.abs(hi)), level = hi - lo <= 1e-6 * most, gap = level ? most || 1 : hi - lo; lo -= .06 * gap; hi += .06 * gap; }  // what stands still but for rounding is level
    const x = v => 42 + (W - 50) * (tEnd > t0 ? (v - t0) / (tEnd - t0) : 0), y = v => 4 + (H - 22) * (1 - (f(v) - lo) / (hi - lo));
    g.font = "10px system-ui, sans-serif"; g.fillStyle = css.getPropertyValue("--soft"); g.strokeStyle = css.getPropertyValue("--line"); g.lineWidth = 1;
    g.textAlign = "right"; g.textBaseline = "middle";
    const step = log ? Math.max(1, Math.ceil((hi - lo) / 4)) : nice((hi - lo) / 3.4);
    for (let v = Math.ceil(lo / step) * step; v <= hi + 1e-9 * step; v += step) {
      const Y = 4 + (H - 22) * (1 - (v - lo) / (hi - lo)); g.beginPath(); g.moveTo(42, Y); g.lineTo(W - 8, Y); g.stroke();
      g.fillText(log ? "1e" + v : short(Math.abs(v) < 1e-9 * step ? 0 : v), 38, Y);
    }
    g.textAlign = "center"; g.textBaseline = "alphabetic";
    const ts = nice((tEnd - t0) / 4 || 1);
    for (let v = Math.ceil(t0 / ts) * ts; v <= tEnd + 1e-9 * ts; v += ts) g.fillText(short(v) + (v + ts > tEnd + 1e-9 * ts ? " s" : ""), Math.min(x(v), W - 14), H - 4);
    g.lineWidth = 1.5; g.lineJoin = "round";
    for (const c of this.panel.curves) {
      g.strokeStyle = c.c; g.setLineDash(c.dashed ? [5, 3] : []); g.beginPath(); const stride = Math.max(1, Math.floor(T / 1500));
      for (let k = 0; k < T; k += stride) { const Y = y(c.data[k]); if (Number.isFinite(Y)) g.lineTo(x(t[k]), Y); }
      g.stroke();
    }
    this.x = x; this.y = y; this.range = hi - lo; this.stale = false;
  }
  now() {
    if (!this.panel || !this.panel.curves.length) return;
    if (this.stale || this.canvas.clientWidth !== this.W) this.paint();
    if (!this.W) return;
    const g = this.canvas.getContext("2d"), X = this.x(state.time);
    g.setTransform(1, 0, 0, 1, 0, 0); g.clearRect(0, 0, this.canvas.width, this.canvas.height); g.drawImage(this.still, 0, 0); g.scale(this.ratio, this.ratio);
    g.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink"); g.globalAlpha = .55; g.lineWidth = 1;
    g.beginPath(); g.moveTo(X, 2); g.lineTo(X, this.H - 18); g.stroke(); g.globalAlpha = 1;
    this.panel.curves.forEach((c, k) => {
      const v = c.data[frame.k] * (1 - frame.s) + c.data[Math.min(frame.k + 1, T - 1)] * frame.s;
      this.values[k].textContent = "\u2007" + (this.panel.log ? v.toExponential(0) : short(Math.abs(v) < 1e-9 * this.range ? 0 : v)).replace("-", "−");
      if (Number.isFinite(v)) { g.fillStyle = c.c; g.beginPath(); g.arc(X, this.y(v), 2.8, 0, 7); g.fill(); }
    });
  }
}
const COMPONENTS = ["Fx", "Fy", "Fz", "Mx", "My", "Mz"];
function reactionPanel(j, from) {
  const joint = S.joints[j], curves = [];
  let largest = 0;
  for (let k = 0; k < T; k++) for (let c = 0; c < 6; c++) if (c < 3 === from < 3) largest = Math.max(largest, Math.abs(inJoint[(k * J + j) * 6 + c]));
  const scaleOf = from < 3 ? typicalForce : typicalForce * S.radius;
  for (let c = from; c < from + 3; c++) {
    const data = new Float32Array(T); let big = 0;
    for (let k = 0; k < T; k++) { data[k] = inJoint[(k * J + j) * 6 + c]; big = Math.max(big, Math.abs(data[k])); }
    if (big > 1e-6 * largest && big > 1e-9 * scaleOf) curves.push({ label: COMPONENTS[c] + (joint.sure[c] ? "" : " (by rule)"), data, c: S.curve_colours[c % 3], dashed: !joint.sure[c] });
  }
  return { title: `${from < 3 ? "reaction force" : "reaction torque"} of ${joint.name} on ${joint.bodies[joint.bodies.length - 1]}, along the joint's own axes`, unit: from < 3 ? "N" : "N m", curves };
}
let forcePlot, torquePlot;
function select(j) {
  state.selected = j; dirty = true;
  forcePlot.set(reactionPanel(j, 0)); torquePlot.set(reactionPanel(j, 3));
  [...$("joints").children].forEach((b, k) => b.setAttribute("aria-pressed", k === j));
}

// ---- controls ---------------------------------------------------------------------------------------------------
const clock = $("clock"), scrub = $("scrub"), digits = Math.min(6, Math.max(1, 2 - Math.floor(Math.log10((tEnd - t0) || 1))));
const readouts = [];
function follow() { // everything beside the picture that follows the time
  clock.textContent = `${state.time.toFixed(digits)} / ${tEnd.toFixed(digits)} s`;
  if (document.activeElement !== scrub || state.playing) scrub.value = tEnd > t0 ? 1000 * (state.time - t0) / (tEnd - t0) : 0;
  for (const p of plots) p.now();
  for (const [e, j] of readouts) { const f = mix(force, 3, frame.k, frame.s, 3 * j, 3 * J); e.textContent = short(+size(f).toPrecision(3)) + " N"; }
}
function seek(time) { state.time = Math.min(Math.max(time, t0), tEnd); dirty = true; }
function play() { if (state.time >= tEnd) state.time = t0; state.playing = true; $("play").className = "on"; $("play").setAttribute("aria-label", "pause"); }
function pause() { state.playing = false; $("play").className = ""; $("play").setAttribute("aria-label", "play"); }
function controls() {
  $("title").textContent = S.title; S.notes.forEach((n, k) => { if (k) make("br", $("notes")); $("notes").append(n); });
  $("play").onclick = () => state.playing ? pause() : play();
  scrub.oninput = () => { pause(); seek(t0 + (tEnd - t0) * scrub.value / 1000); };
  const span = tEnd - t0, base = span >= 1.5 && span <= 60 || !(span > 0) ? 1 : nice(span / 8);
  for (const s of [0.1, 0.25, 0.5, 1, 2, 4]) make("option", $("speed"), { value: base * s, textContent: short(+(base * s).toPrecision(2)) + "×", selected: s === 1 });
  state.speed = base; $("speed").onchange = e => { state.speed = +e.target.value; };
  const toggle = (key, text, when = true) => { if (!when) return; const b = make("button", $("tools"), { textContent: text }); b.setAttribute("aria-pressed", state[key]);
    b.onclick = () => { state[key] = !state[key]; b.setAttribute("aria-pressed", state[key]); dirty = true; }; };
  toggle("bodies", "bodies"); toggle("joints", "joints"); toggle("forces", "reactions", typicalForce > 0); toggle("torques", "torques", !plane && typicalTorque > 0); toggle("traces", "traces", S.traces.length > 0); toggle("names", "names");
  make("button", $("tools"), { textContent: "fit", title: "the first view again (double click)" }).onclick = reset;
  make("button", $("tools"), { textContent: "◐", title: "light or dark" }).onclick = () => { setTheme(theme === THEMES.light ? "dark" : "light"); };
  const words = S.words, seen = new Set(S.joints.map(j => j.solvability));
  make("div", $("legend"), { textContent: "reaction of the joint" }).style.color = "var(--soft)";
  for (const key of Object.keys(words)) { const d = make("div", $("legend")), chip = make("span", d, { className: "chip " + key }); chip.style.background = S.colours[key]; make("span", d, { textContent: words[key] }).style.opacity = seen.has(key) ? 1 : .45; }
  if (typicalForce > 0) { const d = make("div", $("legend")); scaleBar = make("span", d); scaleBar.style.cssText = "border-top:3px solid currentColor;height:0;display:inline-block"; scaleText = make("span", d); }
  make("div", $("legend"), { textContent: `grid ${short(S.cell)} m` }).style.color = "var(--soft)";
  S.joints.forEach((j, k) => {
    const b = make("button", $("joints"), { title: `${j.kind}: ${j.bodies.join(" – ")}` }), chip = make("span", b, { className: "chip " + j.solvability }); chip.style.background = S.colours[j.solvability];
    make("span", b, { textContent: j.name }); make("small", b, { textContent: j.kind }); if (j.placed) readouts.push([make("output", b), k]);
    b.onclick = () => select(k);
  });
  document.addEventListener("keydown", e => {
    if (e.target.tagName === "SELECT") return;
    const step = (tEnd - t0) / Math.max(T - 1, 1) * (e.shiftKey ? 10 : 1);
    if (e.key === " ") { e.preventDefault(); $("play").click(); }
    else if (e.key === "ArrowRight" || e.key === "ArrowLeft") { e.preventDefault(); pause(); seek(state.time + (e.key === "ArrowRight" ? step : -step)); }
    else if (e.key === "Home") seek(t0); else if (e.key === "End") seek(tEnd);
  });
}
let scaleBar, scaleText;
function scaleLegend() {
  if (!scaleBar || !gainOf(typicalForce)) return;
  const value = nice(60 * pixel * (canvas.height / canvas.clientHeight) / gainOf(typicalForce)), length = value * gainOf(typicalForce) / (pixel * canvas.height / canvas.clientHeight);
  scaleBar.style.width = length.toFixed(0) + "px"; scaleText.textContent = short(value) + " N";
}
function setTheme(name) { theme = THEMES[name]; document.documentElement.dataset.theme = name; for (const p of plots) p.stale = true; dirty = true; }
function reset() { Object.assign(camera, home, { pan: [0, 0, 0] }); dirty = true; }
function mouse() {
  const held = new Map(); let spread = 0;
  canvas.addEventListener("contextmenu", e => e.preventDefault());
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); held.set(e.pointerId, [e.clientX, e.clientY]); spread = 0; });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, e => { held.delete(e.pointerId); spread = 0; });
  canvas.addEventListener("pointermove", e => {
    const was = held.get(e.pointerId); if (!was) return;
    const dx = e.clientX - was[0], dy = e.clientY - was[1]; held.set(e.pointerId, [e.clientX, e.clientY]);
    const unitPx = pixel * canvas.height / canvas.clientHeight;
    if (held.size === 2) {
      const [a, b] = [...held.values()], now = Math.hypot(a[0] - b[0], a[1] - b[1]); if (spread) camera.zoom *= now / spread; spread = now;
      camera.pan = add(add(camera.pan, right, -dx * unitPx / 2), top, dy * unitPx / 2);
    } else if (plane || e.shiftKey || e.buttons & 6) camera.pan = add(add(camera.pan, right, -dx * unitPx), top, dy * unitPx);
    else { camera.yaw -= dx * 0.008; camera.pitch = Math.min(Math.max(camera.pitch + dy * 0.008, -1.5), 1.55); }
    dirty = true;
  });
  canvas.addEventListener("wheel", e => { e.preventDefault(); camera.zoom = Math.min(Math.max(camera.zoom * Math.exp(-e.deltaY * 0.0012), 0.05), 60); dirty = true; }, { passive: false });
  new ResizeObserver(() => { dirty = true; for (const p of plots) p.stale = true; }).observe(canvas);
}
let last = 0;
function tick(now) {
  const dt = Math.min((now - last) / 1000, 0.1); last = now;
  if (state.playing) { state.time += dt * state.speed; if (state.time > tEnd) state.time = t0 + (tEnd > t0 ? (state.time - t0) % (tEnd - t0) : 0); dirty = true; }
  if (dirty) { dirty = false; draw(); scaleLegend(); }
  requestAnimationFrame(tick);
}
if (gl) {
  for (const p of S.panels) for (const c of p.curves) c.data = floats(c.y);
  controls(); build(); makeTags(); mouse();
  new Plot(S.panels[0]);
  forcePlot = new Plot(null); torquePlot = new Plot(null);
  S.panels.slice(1).forEach(p => new Plot(p));
  const worst = S.joints.findIndex(j => j.solvability !== "unique" && j.placed), first = S.joints.findIndex(j => j.placed);
  if (first >= 0) select(worst >= 0 ? worst : first);
  if (window.matchMedia("(prefers-color-scheme: dark)").matches) setTheme("dark");
  requestAnimationFrame(tick);
}
if (S.live) { // the server is asked whether the model's file has changed; then the page is read again
  const asking = setInterval(async () => {
    try {
      if (await (await fetch("stamp")).text() !== S.live) { clearInterval(asking); sessionStorage.setItem("dalembert:" + S.title, JSON.stringify({ camera, time: state.time })); location.reload(); }
    } catch { /* the server has stopped; the page stays as it is */ }
  }, 1000);
}
window.dalembert = { scene: S, state, camera, play, pause, seek, select, reset, setTheme, redraw: () => { dirty = true; }, frame: () => frame.k };
})();
