// What is shown at which time, and from where: state, poses between two frames, camera.
// how a body is shown; a click in the list of bodies goes from one to the next
const SOLID_BODY = 0, GLASS = 1, HIDDEN = 2;
const state = {
  time: t0, playing: false, speed: 1, selected: -1,
  bodies: S.bodies.map(() => SOLID_BODY), joints: true, forces: true, torques: false, traces: true, names: J <= 16,
};
// where the reader was before a live page read itself again; a page in a report has no storage
const saved = S.live ? JSON.parse(sessionStorage.getItem("dalembert:" + S.title) || "null") : null;
const U = S.up, horizontal = across(U), E1 = plane ? cross(U, [0, 0, 1]) : horizontal[0],
  E2 = plane ? U : horizontal[1];
const azimuth = plane ? 0 : Math.atan2(dot(S.look, E2), dot(S.look, E1));
const camera = { yaw: azimuth + 0.5, pitch: 0.36, zoom: 1, pan: [0, 0, 0] };
const home = { ...camera };
if (saved) {
  Object.assign(camera, saved.camera);
  state.time = Math.min(Math.max(saved.time, t0), tEnd);
}
let dirty = true, frame = { k: 0, s: 0 }, poses = [], centre = [0, 0, 0], VP = null, eye = [0, 0, 0],
  ahead = [0, 0, -1], right = [1, 0, 0], top = [0, 1, 0], pixel = 1;

// the saved frame before `time`, and the share of the way to the next
function locate(time) {
  let lo = 0, hi = T - 1;
  while (hi - lo > 1) {
    const m = (lo + hi) >> 1;
    if (t[m] <= time) lo = m;
    else hi = m;
  }
  const gap = t[hi] - t[lo];
  return { k: lo, s: gap > 0 ? Math.min(Math.max((time - t[lo]) / gap, 0), 1) : 0 };
}
// numbers of an array over time, between two frames
const mix = (array, width, k, s, offset = 0, stride = width) => {
  const a = k * stride + offset, b = Math.min(k + 1, T - 1) * stride + offset, out = new Array(width);
  for (let i = 0; i < width; i++) out[i] = array[a + i] * (1 - s) + array[b + i] * s;
  return out;
};
// the pose of a body between two frames
function pose(body, k, s) {
  const a = (k * B + body) * 7, b = (Math.min(k + 1, T - 1) * B + body) * 7;
  let d = 0;
  for (let i = 3; i < 7; i++) d += places[a + i] * places[b + i];
  const q = [3, 4, 5, 6].map(i => places[a + i] * (1 - s) + (d < 0 ? -1 : 1) * places[b + i] * s),
    n = Math.hypot(...q);
  return poseMatrix(
    [0, 1, 2].map(i => places[a + i] * (1 - s) + places[b + i] * s),
    q.map(x => x / n),
  );
}
const IDENTITY = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
function pick() {
  frame = locate(state.time);
  poses = [];
  for (let b = 0; b < B; b++) poses.push(pose(b, frame.k, frame.s));
  poses.push(IDENTITY);
  centre = mix(centres, 3, frame.k, frame.s);
}

// ---- camera -----------------------------------------------------------------------------------------------------
const FOV = 2.9; // cot of half the angle of view
function aim() {
  const w = canvas.width, h = canvas.height, aspect = w / h, R = S.radius;
  // the machine fills this share of the canvas; arrows and names need the rest
  const room = { x: 0.86, y: 0.84 };
  const target = add(centre, camera.pan);
  if (plane) {
    ahead = [0, 0, -1];
    right = E1;
    top = U;
    const hw = Math.max(...S.reach.map(c => Math.abs(dot(c, right)))),
      hh = Math.max(...S.reach.map(c => Math.abs(dot(c, top))));
    const half = Math.max(hh / room.y, hw / room.x / aspect, 1e-9) / camera.zoom;
    eye = add(target, [0, 0, 4 * R]);
    pixel = (2 * half) / h;
    VP = mul(ortho(half * aspect, half, 0.01 * R, 12 * R), lookAt(eye, target, top));
    return;
  }
  const c = Math.cos(camera.pitch),
    out = add(add(scale(E1, c * Math.cos(camera.yaw)), E2, c * Math.sin(camera.yaw)), U, Math.sin(camera.pitch));
  ahead = scale(out, -1);
  right = unit(cross(ahead, U));
  top = cross(right, ahead);
  let need = 0;
  for (const p of S.reach) {
    const depth = dot(p, out);
    need = Math.max(
      need,
      depth + (FOV * Math.abs(dot(p, right))) / room.x / aspect,
      depth + (FOV * Math.abs(dot(p, top))) / room.y,
    );
  }
  const away = need / camera.zoom;
  eye = add(target, out, away);
  pixel = (2 * away) / FOV / h;
  VP = mul(perspective(FOV, aspect, Math.max(away - 3 * R, 0.02 * away), away + 12 * R), lookAt(eye, target, U));
}
const project = p => {
  const x = [0, 1, 3].map(r => VP[r] * p[0] + VP[4 + r] * p[1] + VP[8 + r] * p[2] + VP[12 + r]);
  return [
    ((x[0] / x[2]) * 0.5 + 0.5) * canvas.clientWidth,
    (0.5 - (x[1] / x[2]) * 0.5) * canvas.clientHeight,
    x[2],
  ];
};
