// Buttons, lists, keys and the mouse; the loop that plays. Last of the files: it starts the page.
const clock = $("clock"), scrub = $("scrub"), readouts = [];
const digits = Math.min(6, Math.max(1, 2 - Math.floor(Math.log10(tEnd - t0 || 1))));
const SHOWN = ["shown", "transparent", "hidden"];
let scaleBar, scaleText;

// everything beside the picture that follows the time
function follow() {
  clock.textContent = `${state.time.toFixed(digits)} / ${tEnd.toFixed(digits)} s`;
  if (document.activeElement !== scrub || state.playing)
    scrub.value = tEnd > t0 ? (1000 * (state.time - t0)) / (tEnd - t0) : 0;
  for (const p of plots) p.now();
  for (const [e, j] of readouts) {
    const f = mix(force, 3, frame.k, frame.s, 3 * j, 3 * J);
    e.textContent = doubtful(S.joints[j], state.time) ? "not determined" : short(+size(f).toPrecision(3)) + " N";
  }
  scaleLegend();
}
function seek(time) {
  state.time = Math.min(Math.max(time, t0), tEnd);
  dirty = true;
}
function setPlaying(on) {
  if (on && state.time >= tEnd) state.time = t0;
  state.playing = on;
  $("play").className = on ? "on" : "";
  $("play").setAttribute("aria-label", on ? "pause" : "play");
}
const play = () => setPlaying(true), pause = () => setPlaying(false);

function controls() {
  $("title").textContent = S.title;
  for (const note of S.notes) make("span", $("notes"), { textContent: note });
  $("play").onclick = () => setPlaying(!state.playing);
  scrub.oninput = () => {
    pause();
    seek(t0 + ((tEnd - t0) * scrub.value) / 1000);
  };
  const share = time => (tEnd > t0 ? (Math.min(Math.max(time, t0), tEnd) - t0) / (tEnd - t0) : 0);
  for (const d of S.doubts) {
    const mark = make("i", $("doubts"), { title: d.text }).style;
    mark.left = `${100 * share(d.low)}%`;
    mark.width = `${100 * (share(d.high) - share(d.low))}%`;
    mark.background = DOUBT;
  }
  speeds();
  tools();
  legend();
  S.bodies.forEach((body, b) => bodyButton(body, b));
  S.joints.forEach((joint, j) => jointButton(joint, j));
  showBodies();
  document.addEventListener("keydown", key);
}
function speeds() {
  const span = tEnd - t0, base = (span >= 1.5 && span <= 60) || !(span > 0) ? 1 : nice(span / 8);
  for (const s of [0.1, 0.25, 0.5, 1, 2, 4]) {
    const textContent = short(+(base * s).toPrecision(2)) + "×";
    make("option", $("speed"), { value: base * s, textContent, selected: s === 1 });
  }
  state.speed = base;
  $("speed").onchange = e => {
    state.speed = +e.target.value;
  };
}
function tools() {
  const all = make("button", $("tools"), { id: "all", textContent: "bodies" });
  all.title = "all bodies: shown, transparent, hidden (key b)";
  all.onclick = () => nextForAll();
  const toggle = (name, text, when = true) => {
    if (!when) return;
    const b = make("button", $("tools"), { textContent: text });
    b.setAttribute("aria-pressed", state[name]);
    b.onclick = () => {
      state[name] = !state[name];
      b.setAttribute("aria-pressed", state[name]);
      dirty = true;
    };
  };
  toggle("joints", "joints");
  toggle("forces", "reactions", typicalForce > 0);
  toggle("torques", "torques", !plane && typicalTorque > 0);
  toggle("traces", "traces", S.traces.length > 0);
  toggle("names", "names");
  make("button", $("tools"), { textContent: "fit", title: "the first view again (double click)" }).onclick = reset;
  make("button", $("tools"), { textContent: "◐", title: "light or dark", ariaLabel: "light or dark" }).onclick =
    () => setTheme(theme === THEMES.light ? "dark" : "light");
}
function legend() {
  const seen = new Set(S.joints.map(j => j.solvability));
  if (S.doubts.length) seen.add("open");
  const what = "reaction of the joint on its second body; curves: along the joint's own axes";
  make("div", $("legend"), { textContent: what, className: "soft" });
  for (const [name, text] of Object.entries(S.words)) {
    const line = make("div", $("legend"), { className: seen.has(name) ? "" : "absent" });
    make("span", line, { className: "chip " + name }).style.background = S.colours[name];
    make("span", line, { textContent: text });
  }
  if (typicalForce > 0) {
    const line = make("div", $("legend"));
    scaleBar = make("span", line, { className: "bar" });
    scaleText = make("span", line);
  }
  if (S.doubts.length) {
    const line = make("div", $("legend"));
    make("span", line, { className: "doubt" }).style.background = DOUBT;
    make("span", line, { textContent: "not determined at these times" });
  }
  make("div", $("legend"), { textContent: `grid ${short(S.cell)} m`, className: "soft" });
}
// the length of the bar is a round force on the scale of the arrows
function scaleLegend() {
  if (!scaleBar || !gainOf(typicalForce)) return;
  const metres = (pixel * canvas.height) / canvas.clientHeight; // of a pixel
  const value = nice((60 * metres) / gainOf(typicalForce));
  scaleBar.style.width = ((value * gainOf(typicalForce)) / metres).toFixed(0) + "px";
  scaleText.textContent = short(value) + " N";
}

// ---- bodies and joints ------------------------------------------------------------------------------------------
function bodyButton(body, b) {
  const button = make("button", $("bodies"));
  make("span", button, { className: "chip square" }).style.background = body.color;
  make("span", button, { textContent: body.name });
  button.onclick = () => {
    state.bodies[b] = (state.bodies[b] + 1) % SHOWN.length;
    showBodies();
  };
}
function nextForAll() {
  const next = (Math.min(...state.bodies) + 1) % SHOWN.length;
  state.bodies.fill(next);
  showBodies();
}
function showBodies() {
  [...$("bodies").children].forEach((button, b) => {
    button.dataset.shown = SHOWN[state.bodies[b]];
    button.title = `${S.bodies[b].name}: ${SHOWN[state.bodies[b]]} (click for the next)`;
  });
  const solidAll = state.bodies.every(x => x === SOLID_BODY), hiddenAll = state.bodies.every(x => x === HIDDEN);
  $("all").setAttribute("aria-pressed", solidAll ? "true" : hiddenAll ? "false" : "mixed");
  dirty = true;
}
function jointButton(joint, j) {
  const button = make("button", $("joints"), { title: `${joint.kind}: ${joint.bodies.join(" – ")}` });
  make("span", button, { className: "chip " + joint.solvability }).style.background = S.colours[joint.solvability];
  make("span", button, { textContent: joint.name });
  make("small", button, { textContent: joint.kind });
  if (joint.placed) readouts.push([make("output", button), j]);
  button.onclick = () => select(j);
}

// ---- keys, mouse, fingers ---------------------------------------------------------------------------------------
function key(e) {
  if (e.target.tagName === "SELECT" || e.ctrlKey || e.metaKey || e.altKey) return;
  const step = ((tEnd - t0) / Math.max(T - 1, 1)) * (e.shiftKey ? 10 : 1);
  const does = {
    " ": () => $("play").click(),
    ArrowRight: () => (pause(), seek(state.time + step)),
    ArrowLeft: () => (pause(), seek(state.time - step)),
    Home: () => seek(t0),
    End: () => seek(tEnd),
    b: nextForAll,
  }[e.key];
  if (!does) return;
  e.preventDefault();
  does();
}
function setTheme(name) {
  theme = THEMES[name];
  document.documentElement.dataset.theme = name;
  for (const p of plots) p.stale = true;
  dirty = true;
}
function reset() {
  Object.assign(camera, home, { pan: [0, 0, 0] });
  dirty = true;
}
function drag(e, held, before) {
  const dx = e.clientX - before[0], dy = e.clientY - before[1], metres = (pixel * canvas.height) / canvas.clientHeight;
  const pan = share => {
    camera.pan = add(add(camera.pan, right, -share * dx * metres), top, share * dy * metres);
  };
  if (held.size === 2) pan(0.5);
  else if (plane || e.shiftKey || e.buttons & 6) pan(1);
  else {
    camera.yaw -= dx * 0.008;
    camera.pitch = Math.min(Math.max(camera.pitch + dy * 0.008, -1.5), 1.55);
  }
}
function mouse() {
  const held = new Map();
  let spread = 0; // between two fingers
  canvas.addEventListener("contextmenu", e => e.preventDefault());
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("pointerdown", e => {
    canvas.setPointerCapture(e.pointerId);
    held.set(e.pointerId, [e.clientX, e.clientY]);
    spread = 0;
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, e => {
      held.delete(e.pointerId);
      spread = 0;
    });
  canvas.addEventListener("pointermove", e => {
    const before = held.get(e.pointerId);
    if (!before) return;
    held.set(e.pointerId, [e.clientX, e.clientY]);
    drag(e, held, before);
    if (held.size === 2) {
      const [a, b] = [...held.values()], now = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (spread) camera.zoom *= now / spread;
      spread = now;
    }
    dirty = true;
  });
  const wheel = e => {
    e.preventDefault();
    camera.zoom = Math.min(Math.max(camera.zoom * Math.exp(-e.deltaY * 0.0012), 0.05), 60);
    dirty = true;
  };
  // within another page the wheel scrolls that page, unless Ctrl is held
  canvas.addEventListener("wheel", e => (bare && !e.ctrlKey ? null : wheel(e)), { passive: false });
  new ResizeObserver(() => {
    dirty = true;
    for (const p of plots) p.stale = true;
  }).observe(canvas);
}

// ---- the start --------------------------------------------------------------------------------------------------
// page.html#bare is the machine alone, to be put into another page; #play starts it
const bare = location.hash.includes("bare");
let last = 0;
function tick(now) {
  const dt = Math.min((now - last) / 1000, 0.1);
  last = now;
  if (state.playing) {
    state.time += dt * state.speed;
    if (state.time > tEnd) state.time = t0 + (tEnd > t0 ? (state.time - t0) % (tEnd - t0) : 0);
    dirty = true;
  }
  if (dirty) {
    dirty = false;
    draw();
  }
  requestAnimationFrame(tick);
}
if (bare) document.documentElement.dataset.bare = "";
if (gl) {
  for (const p of S.panels) for (const c of p.curves) c.data = floats(c.y);
  controls();
  build();
  makeTags();
  mouse();
  new Plot(S.panels[0]);
  forcePlot = new Plot(null);
  torquePlot = new Plot(null);
  S.panels.slice(1).forEach(p => new Plot(p));
  const placed = S.joints.findIndex(j => j.placed);
  const doubtful = S.joints.findIndex(j => j.solvability !== "unique" && j.placed);
  if (placed >= 0) select(doubtful >= 0 ? doubtful : placed);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  if (dark.matches) setTheme("dark");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  if (location.hash.includes("play") && !matchMedia("(prefers-reduced-motion: reduce)").matches) play();
  requestAnimationFrame(tick);
}
if (S.live) {
  // the server is asked whether the model's file has changed; then the page is read again
  const asking = setInterval(async () => {
    try {
      if ((await (await fetch("stamp")).text()) !== S.live) {
        clearInterval(asking);
        sessionStorage.setItem("dalembert:" + S.title, JSON.stringify({ camera, time: state.time }));
        location.reload();
      }
    } catch {
      /* the server has stopped; the page stays as it is */
    }
  }, 1000);
}
const redraw = () => {
  dirty = true;
};
window.dalembert = {
  scene: S, state, camera, play, pause, seek, select, reset, setTheme, redraw, frame: () => frame.k,
};
