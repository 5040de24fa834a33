// Vectors as arrays of three, matrices as 16 numbers (columns first), and numbers as text.
const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const scale = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
const size = a => Math.hypot(a[0], a[1], a[2]);
const unit = a => {
  const n = size(a);
  return n > 0 ? scale(a, 1 / n) : [0, 0, 1];
};
// x, y that make a frame with z
const across = z => {
  z = unit(z);
  const k = [0, 1, 2].reduce((b, i) => (Math.abs(z[i]) < Math.abs(z[b]) ? i : b), 0);
  const e = [0, 0, 0];
  e[k] = 1;
  const x = unit(add(e, z, -dot(z, e)));
  return [x, cross(z, x), z];
};
const mul = (a, b) => {
  const o = new Float32Array(16);
  for (let c = 0; c < 4; c++)
    for (let r = 0; r < 4; r++) {
      let s = 0;
      for (let k = 0; k < 4; k++) s += a[k * 4 + r] * b[c * 4 + k];
      o[c * 4 + r] = s;
    }
  return o;
};
const lookAt = (eye, to, up) => {
  const z = unit(add(eye, to, -1)), x = unit(cross(up, z)), y = cross(z, x);
  return new Float32Array([
    ...[x[0], y[0], z[0], 0],
    ...[x[1], y[1], z[1], 0],
    ...[x[2], y[2], z[2], 0],
    ...[-dot(x, eye), -dot(y, eye), -dot(z, eye), 1],
  ]);
};
const perspective = (f, a, n, r) =>
  new Float32Array([f / a, 0, 0, 0, 0, f, 0, 0, 0, 0, (r + n) / (n - r), -1, 0, 0, (2 * r * n) / (n - r), 0]);
const ortho = (w, h, n, r) =>
  new Float32Array([1 / w, 0, 0, 0, 0, 1 / h, 0, 0, 0, 0, -2 / (r - n), 0, 0, 0, -(r + n) / (r - n), 1]);
const basis = (x, y, z, o) => new Float32Array([...x, 0, ...y, 0, ...z, 0, ...o, 1]);
const poseMatrix = (p, q) => {
  const [w, x, y, z] = q;
  return new Float32Array([
    ...[1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0],
    ...[2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0],
    ...[2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0],
    ...[p[0], p[1], p[2], 1],
  ]);
};
// the point p of a body with pose M, in world coordinates
const at = (M, p) => [0, 1, 2].map(r => M[r] * p[0] + M[4 + r] * p[1] + M[8 + r] * p[2] + M[12 + r]);
// "#rrggbb" in linear light, and back for what is drawn without light
const colour = hex => [1, 3, 5].map(k => Math.pow(parseInt(hex.slice(k, k + 2), 16) / 255, 2.2));
// a round number near x: 1, 2 or 5 times a power of ten
const nice = x => {
  const e = Math.pow(10, Math.floor(Math.log10(x))), m = x / e;
  return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * e;
};
const short = x => {
  const a = Math.abs(x);
  return a === 0 ? "0" : a >= 1e5 || a < 1e-3 ? x.toExponential(1).replace("e+", "e") : String(+x.toPrecision(4));
};
