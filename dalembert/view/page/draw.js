// The picture: shadow, floor, bodies and joints, arrows, traces, springs; names and the axes beside it.
const THEMES = {
  light: {
    back: [0.933, 0.945, 0.961], ground: [0.985, 0.988, 0.993],
    lines: [0.8, 0.835, 0.875], ambient: [0.5, 0.52, 0.56],
  },
  dark: {
    back: [0.063, 0.082, 0.106], ground: [0.118, 0.145, 0.18],
    lines: [0.23, 0.28, 0.34], ambient: [0.42, 0.45, 0.52],
  },
};
const OPACITY = 0.28; // of a transparent body
const TURNS = 9, COIL = 160; // of a spring, and the pieces of its line
const ONE = [1, 1, 1], SHADOW_SIZE = 2048;
let theme = THEMES.light, bodyMeshes = [], jointMeshes = [], traces = [], springs = [], loads = [], shaft, head;
const tints = {}; // of reactions, by solvability
const SUN = plane ? unit([...add(scale(U, 0.8), E1, -0.5).slice(0, 2), 1.6]) : null;
const sunNow = () => (plane ? SUN : unit(add(add(scale(U, 1.5), right, -0.75), ahead, -0.55)));
const typicalForce = S.typical_force, typicalTorque = S.typical_torque;
const gainOf = typical => (typical > 0 ? S.arrow_length / typical : 0);
const onScreen = hex => colour(hex).map(x => Math.pow(x, 1 / 2.2)); // for what is drawn without light

function build() {
  start();
  const meshOf = parts => {
    const m = new Mesh();
    parts.forEach(p => m.add(p));
    return upload(m);
  };
  bodyMeshes = S.bodies.map(b => meshOf(b.parts));
  jointMeshes = S.joints.map(j => j.parts.map(g => ({ body: g.body, mesh: meshOf(g.parts) })));
  shaft = meshOf([{ t: "tube", o: [0, 0, 0.5], z: [0, 0, 1], R0: 0, R1: 1, h: 1, c: "#ffffff" }]);
  head = meshOf([{ t: "cone", a: [0, 0, 0], b: [0, 0, 1], r: 1, c: "#ffffff" }]);
  for (const [name, hex] of Object.entries(S.colours)) tints[name] = colour(hex).map(x => x * 0.82);
  traces = S.traces.map(tr => {
    const pts = new Float32Array(3 * T);
    for (let k = 0; k < T; k++) pts.set(at(pose(tr.body, k, 0), tr.point), 3 * k);
    return { ...path(pts), tone: onScreen(tr.c) };
  });
  // links between two bodies: "spring" and "rod" from a to b, "force" and "torque" from a along v (world axes)
  springs = S.links
    .filter(l => l.t === "spring")
    .map(l => ({ ...l, ...path(new Float32Array(3 * (COIL + 1)), true), tone: onScreen(l.c) }));
  loads = S.links.filter(l => l.t === "force" || l.t === "torque").map(l => ({ ...l, v: floats(l.v) }));
}

// ---- what is drawn: mesh, its matrix, inverse squares of its scales, a colour instead of its own, its joint -------
const scaled = (mesh, F, r, L, o, tint) => ({
  mesh,
  M: basis(scale(F[0], r), scale(F[1], r), scale(F[2], L), o),
  flat: [1 / (r * r), 1 / (r * r), 1 / (L * L)],
  tint,
  joint: -1,
});
function* bodies(how) {
  for (let b = 0; b <= B; b++)
    if (bodyMeshes[b] && state.bodies[b] === how)
      yield { mesh: bodyMeshes[b], M: poses[b], flat: ONE, tint: null, joint: -1 };
}
function* jointsAndRods() {
  for (let j = 0; j < J; j++)
    if (state.joints)
      for (const g of jointMeshes[j])
        if (g.mesh) yield { mesh: g.mesh, M: poses[g.body], flat: ONE, tint: null, joint: j };
  for (const l of S.links) {
    if (l.t !== "rod") continue;
    const a = at(poses[l.i], l.a), d = add(at(poses[l.j], l.b), a, -1);
    yield scaled(shaft, across(d), l.r, Math.max(size(d), 1e-12), a, colour(l.c));
  }
}
// an arrow at a along f; one with two heads is a torque
function* arrow(a, f, tint, twoHeads) {
  const r = S.arrow, L = size(f);
  if (!(L > 0.6 * r)) return;
  const F = across(f), headLength = Math.min(4.6 * r, 0.6 * L), headWidth = 0.42 * headLength;
  const end = L - headLength;
  yield scaled(shaft, F, Math.min(r, headWidth / 2), Math.max(end, 1e-9), a, tint);
  for (const back of twoHeads ? [0, 0.75 * headLength] : [0])
    yield scaled(head, F, headWidth, headLength, add(a, F[2], end - back), tint);
}
function* arrows() {
  const kinds = [];
  if (state.forces) kinds.push([force, gainOf(typicalForce), false]);
  if (state.torques) kinds.push([torque, gainOf(typicalTorque), true]);
  const lift = [0, 0, plane ? S.lift : 0]; // in the plane above all bodies
  for (let j = 0; j < J; j++) {
    const joint = S.joints[j];
    if (!joint.placed) continue;
    const a = add(at(poses[joint.j], joint.point), lift);
    const tint = tints[doubtful(joint, state.time) ? "open" : joint.solvability];
    for (const [values, gain, twoHeads] of kinds)
      yield* arrow(a, scale(mix(values, 3, frame.k, frame.s, 3 * j, 3 * J), gain), tint, twoHeads);
  }
  for (const l of loads) {
    const turning = l.t === "torque", gain = gainOf(turning ? typicalTorque : typicalForce);
    const a = add(at(poses[l.i], l.a), lift);
    yield* arrow(a, scale(mix(l.v, 3, frame.k, frame.s), gain), colour(l.c), turning);
  }
}

// ---- passes -----------------------------------------------------------------------------------------------------
function drawAll(P, list) {
  for (const { mesh, M, flat, tint, joint } of list) {
    gl.uniformMatrix4fv(P.u.M, false, M);
    if (P === solid) {
      gl.uniform3fv(P.u.flatten, flat);
      gl.uniform3fv(P.u.tint, tint || [-1, 0, 0]);
      gl.uniform1f(P.u.glow, joint >= 0 && joint === state.selected ? 0.35 : 0);
    }
    gl.bindVertexArray(mesh.vao);
    gl.drawElements(gl.TRIANGLES, mesh.n, gl.UNSIGNED_INT, 0);
  }
}
function uniforms(P, matrices, vectors, numbers) {
  gl.useProgram(P.p);
  for (const [k, v] of Object.entries(matrices)) gl.uniformMatrix4fv(P.u[k], false, v);
  for (const [k, v] of Object.entries(vectors)) gl.uniform3fv(P.u[k], v);
  for (const [k, v] of Object.entries(numbers)) gl.uniform1f(P.u[k], v);
}
function fitCanvas(ratio) {
  const w = Math.max(1, Math.round(canvas.clientWidth * ratio));
  const h = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
}
function draw() {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  fitCanvas(ratio);
  pick();
  aim();
  const opaque = [...bodies(SOLID_BODY), ...jointsAndRods()], sun = sunNow();
  const L = drawShadow(opaque, sun);
  gl.viewport(0, 0, canvas.width, canvas.height);
  gl.clearColor(...theme.back, 1);
  gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  gl.activeTexture(gl.TEXTURE0);
  gl.bindTexture(gl.TEXTURE_2D, shadowMap.t);
  drawFloor(L);
  const vectors = { eye, sun, up: plane ? [0, 0, 1] : U, ambient: theme.ambient, ahead };
  uniforms(solid, { V: VP, L }, vectors, { parallel: plane ? 1 : 0, opacity: 1 });
  gl.uniform1i(solid.u.shadow, 0);
  drawAll(solid, opaque);
  drawAll(solid, arrows());
  drawLines(ratio);
  drawGlass([...bodies(GLASS)]);
  gl.bindVertexArray(null);
  label();
  axes();
  follow();
}
// the machine seen from the sun; the matrix that leads there
function drawShadow(list, sun) {
  const R = S.radius, target = add(centre, camera.pan), side = Math.abs(dot(sun, U)) > 0.99 ? E1 : U;
  const L = mul(ortho(1.5 * R, 1.5 * R, 0, 8 * R), lookAt(add(target, sun, 4 * R), target, side));
  gl.enable(gl.DEPTH_TEST);
  gl.disable(gl.BLEND);
  gl.bindFramebuffer(gl.FRAMEBUFFER, shadowMap.f);
  gl.viewport(0, 0, SHADOW_SIZE, SHADOW_SIZE);
  gl.clear(gl.DEPTH_BUFFER_BIT);
  uniforms(depthP, { L }, {}, {});
  drawAll(depthP, list);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  return L;
}
// the floor, or in the plane the board behind the machine
function drawFloor(L) {
  const N = plane ? [0, 0, 1] : U, level = plane ? -S.lift : S.floor, target = add(centre, camera.pan);
  const o = add(target, N, level - dot(target, N)), below = dot(add(eye, o, -1), N) < 0;
  const reach = ((plane ? 4.5 : 4) * S.radius) / Math.min(camera.zoom, 1);
  const vectors = { o, x: E1, y: E2, ground: theme.ground, lines: theme.lines };
  uniforms(floorP, { V: VP, L }, vectors, { reach, cell: S.cell, seen: below ? 0.35 : 1 });
  gl.uniform1i(floorP.u.shadow, 0);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.depthMask(false);
  gl.bindVertexArray(null);
  gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
  gl.depthMask(true);
  gl.disable(gl.BLEND);
}
function drawLines(ratio) {
  uniforms(ribbon, { V: VP }, {}, {});
  gl.enable(gl.BLEND);
  gl.uniform2f(ribbon.u.screen, canvas.width, canvas.height);
  const strip = (line, width, now, faint) => {
    gl.uniform3fv(ribbon.u.tone, line.tone);
    gl.uniform1f(ribbon.u.width, width * ratio);
    gl.uniform1f(ribbon.u.now, now);
    gl.uniform1f(ribbon.u.faint, faint);
    gl.bindVertexArray(line.vao);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, line.n);
  };
  if (state.traces) for (const line of traces) strip(line, 2.2, frame.k, 0.22);
  for (const l of springs) {
    coil(l);
    strip(l, 2.4, 1e9, 1);
  }
  gl.disable(gl.BLEND);
}
// transparent bodies, the farthest first; of each only the surface in front
function drawGlass(list) {
  if (!list.length) return;
  const depth = ({ M }) => dot(add([M[12], M[13], M[14]], eye, -1), ahead);
  uniforms(solid, {}, {}, { opacity: OPACITY });
  gl.enable(gl.BLEND);
  gl.depthFunc(gl.LEQUAL);
  for (const item of list.sort((a, b) => depth(b) - depth(a))) {
    gl.colorMask(false, false, false, false);
    drawAll(solid, [item]);
    gl.colorMask(true, true, true, true);
    drawAll(solid, [item]);
  }
  gl.depthFunc(gl.LESS);
  gl.disable(gl.BLEND);
}
// a helix between two points; in the plane its shadow, a wave
function coil(l) {
  const a = at(poses[l.i], l.a), d = add(at(poses[l.j], l.b), a, -1), L = size(d);
  const F = plane ? [unit(cross([0, 0, 1], d)), [0, 0, 1], unit(d)] : across(d);
  const pts = new Float32Array(3 * (COIL + 1));
  for (let k = 0; k <= COIL; k++) {
    const s = k / COIL, inside = Math.min(Math.max((s - 0.1) / 0.8, 0), 1), turn = 2 * Math.PI * TURNS * inside;
    const r = l.r * Math.max(0, Math.min(1, (s - 0.1) / 0.03, (0.9 - s) / 0.03)); // straight at both ends
    const along = add(add(a, F[2], L * s), F[0], r * Math.sin(turn));
    pts.set(add(along, F[1], plane ? 0 : r * Math.cos(turn)), 3 * k);
  }
  gl.bindBuffer(gl.ARRAY_BUFFER, l.buffer);
  gl.bufferSubData(gl.ARRAY_BUFFER, 0, pts);
}

// ---- names at joints, and the world's axes ----------------------------------------------------------------------
const tags = [];
function makeTags() {
  const groups = [];
  S.joints.forEach((j, k) => {
    if (!j.placed) return;
    const here = at(B > j.j ? pose(j.j, 0, 0) : IDENTITY, j.point);
    const near = groups.find(g => size(add(g.here, here, -1)) < 1e-3 * S.radius);
    if (near) near.names.push(j.name);
    else groups.push({ here, joint: k, names: [j.name] });
  });
  for (const { joint, names } of groups) {
    const text = names.slice(0, 4).join(", ") + (names.length > 4 ? " …" : "");
    tags.push({ e: make("span", $("labels"), { textContent: text }), joint });
  }
}
function label() {
  $("labels").style.display = state.names ? "" : "none";
  if (!state.names) return;
  for (const { e, joint } of tags) {
    const j = S.joints[joint], [x, y] = project(at(poses[j.j], j.point));
    e.style.transform = `translate(${x.toFixed(1)}px,${y.toFixed(1)}px) translate(9px,-20px)`;
  }
}
const AXES = [["x", [1, 0, 0], "#d1495b"], ["y", [0, 1, 0], "#2e933c"], ["z", [0, 0, 1], "#3a6fd8"]];
function axes() {
  const box = $("axes"), ratio = window.devicePixelRatio || 1, W = box.clientWidth, r = 0.33 * W;
  if (!W) return;
  box.width = box.height = W * ratio;
  const g = box.getContext("2d");
  g.scale(ratio, ratio);
  g.translate(W / 2, W / 2);
  g.font = "600 11px system-ui, sans-serif";
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.lineWidth = 2;
  const seen = AXES.filter(([name]) => !plane || name !== "z").map(([name, e, c]) => [
    name, c, dot(e, right), -dot(e, top), dot(e, ahead),
  ]);
  // in the plane the origin stands in a corner, so that both axes are long
  if (plane) g.translate(-0.45 * r * (seen[0][2] + seen[1][2]), -0.45 * r * (seen[0][3] + seen[1][3]));
  const long = plane ? 1.5 : 1;
  for (const [name, c, x, y] of seen.sort((a, b) => b[4] - a[4])) {
    g.strokeStyle = g.fillStyle = c;
    g.beginPath();
    g.moveTo(0, 0);
    g.lineTo(x * r * long * 0.8, y * r * long * 0.8);
    g.stroke();
    const away = Math.hypot(x, y) < 0.25 ? [6, -6] : [x * r * long * 1.12, y * r * long * 1.12];
    g.fillText(name, ...away);
  }
}
