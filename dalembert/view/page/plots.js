// Small plots that follow the time, and the reactions of the joint that was picked.
const plots = [];
const DOUBT = "rgba(138, 148, 160, 0.35)"; // times at which reactions are not determined
class Plot {
  constructor(panel) {
    this.box = make("div", $("plots"), { className: "plot" });
    this.title = make("h3", this.box);
    this.canvas = make("canvas", this.box);
    this.keys = make("div", this.box, { className: "keys" });
    this.still = document.createElement("canvas");
    const to = e => {
      const b = this.canvas.getBoundingClientRect();
      seek(t0 + ((tEnd - t0) * (e.clientX - b.left - 42)) / (b.width - 50));
    };
    this.canvas.addEventListener("pointerdown", e => {
      this.canvas.setPointerCapture(e.pointerId);
      pause();
      to(e);
    });
    this.canvas.addEventListener("pointermove", e => {
      if (e.buttons) to(e);
    });
    this.set(panel);
    plots.push(this);
  }
  set(panel) {
    this.panel = panel;
    this.box.style.display = panel && panel.curves.length ? "" : "none";
    if (!panel) return;
    this.doubts = panel.joint ? S.doubts.filter(d => d.joints.includes(panel.joint)) : [];
    this.title.replaceChildren();
    make("span", this.title, { textContent: panel.title });
    make("span", this.title, { textContent: panel.unit === "1" ? "" : panel.unit });
    this.keys.replaceChildren();
    this.values = panel.curves.map(c => {
      const k = make("span", this.keys), i = make("i", k);
      i.style.color = c.c;
      if (c.dashed) i.className = "dashed";
      make("span", k, { textContent: c.label });
      return make("span", k);
    });
    this.stale = true;
  }
  paint() {
    const ratio = window.devicePixelRatio || 1, W = this.canvas.clientWidth, H = this.canvas.clientHeight;
    if (!W) return;
    for (const c of [this.canvas, this.still]) {
      c.width = W * ratio;
      c.height = H * ratio;
    }
    this.W = W;
    this.H = H;
    this.ratio = ratio;
    const g = this.still.getContext("2d"), css = getComputedStyle(document.documentElement);
    g.scale(ratio, ratio);
    const log = this.panel.log, f = log ? x => Math.log10(Math.max(x, 1e-18)) : x => x;
    let lo = Infinity, hi = -Infinity;
    for (const c of this.panel.curves)
      for (const y of c.data)
        if (Number.isFinite(y)) {
          const v = f(y);
          if (v < lo) lo = v;
          if (v > hi) hi = v;
        }
    if (!(hi >= lo)) {
      lo = 0;
      hi = 1;
    }
    if (log) {
      lo = Math.floor(lo);
      hi = Math.max(Math.ceil(hi), lo + 1);
    } else {
      // what stands still but for rounding is level
      const most = Math.max(Math.abs(lo), Math.abs(hi)), level = hi - lo <= 1e-6 * most,
        gap = level ? most || 1 : hi - lo;
      lo -= 0.06 * gap;
      hi += 0.06 * gap;
    }
    const x = v => 42 + (W - 50) * (tEnd > t0 ? (v - t0) / (tEnd - t0) : 0),
      y = v => 7 + (H - 25) * (1 - (f(v) - lo) / (hi - lo));
    g.fillStyle = DOUBT;
    for (const d of this.doubts) g.fillRect(x(d.low), 7, Math.max(x(d.high) - x(d.low), 1.5), H - 25);
    g.font = "10px system-ui, sans-serif";
    g.fillStyle = css.getPropertyValue("--soft");
    g.strokeStyle = css.getPropertyValue("--line");
    g.lineWidth = 1;
    g.textAlign = "right";
    g.textBaseline = "middle";
    const step = log ? Math.max(1, Math.ceil((hi - lo) / 4)) : nice((hi - lo) / 3.4);
    for (let v = Math.ceil(lo / step) * step; v <= hi + 1e-9 * step; v += step) {
      const Y = 7 + (H - 25) * (1 - (v - lo) / (hi - lo));
      g.beginPath();
      g.moveTo(42, Y);
      g.lineTo(W - 8, Y);
      g.stroke();
      g.fillText(log ? "1e" + v : short(Math.abs(v) < 1e-9 * step ? 0 : v), 38, Y);
    }
    g.textAlign = "center";
    g.textBaseline = "alphabetic";
    const ts = nice((tEnd - t0) / 4 || 1);
    for (let v = Math.ceil(t0 / ts) * ts; v <= tEnd + 1e-9 * ts; v += ts)
      g.fillText(short(v) + (v + ts > tEnd + 1e-9 * ts ? " s" : ""), Math.min(x(v), W - 14), H - 4);
    g.lineWidth = 1.5;
    g.lineJoin = "round";
    for (const c of this.panel.curves) {
      g.strokeStyle = c.c;
      g.setLineDash(c.dashed ? [5, 3] : []);
      g.beginPath();
      const stride = Math.max(1, Math.floor(T / 1500));
      for (let k = 0; k < T; k += stride) {
        const Y = y(c.data[k]);
        if (Number.isFinite(Y)) g.lineTo(x(t[k]), Y);
      }
      g.stroke();
    }
    this.x = x;
    this.y = y;
    this.range = hi - lo;
    this.stale = false;
  }
  now() {
    if (!this.panel || !this.panel.curves.length) return;
    if (this.stale || this.canvas.clientWidth !== this.W) this.paint();
    if (!this.W) return;
    const g = this.canvas.getContext("2d"), X = this.x(state.time);
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    g.drawImage(this.still, 0, 0);
    g.scale(this.ratio, this.ratio);
    g.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    g.globalAlpha = 0.55;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(X, 2);
    g.lineTo(X, this.H - 18);
    g.stroke();
    g.globalAlpha = 1;
    this.panel.curves.forEach((c, k) => {
      const v = c.data[frame.k] * (1 - frame.s) + c.data[Math.min(frame.k + 1, T - 1)] * frame.s;
      this.values[k].textContent =
        "\u2007" +
        (this.panel.log ? v.toExponential(0) : short(Math.abs(v) < 1e-9 * this.range ? 0 : v)).replace("-", "−");
      if (Number.isFinite(v)) {
        g.fillStyle = c.c;
        g.beginPath();
        g.arc(X, this.y(v), 2.8, 0, 7);
        g.fill();
      }
    });
  }
}
const COMPONENTS = ["Fx", "Fy", "Fz", "Mx", "My", "Mz"];
function reactionPanel(j, from) {
  const joint = S.joints[j], curves = [];
  let largest = 0;
  for (let k = 0; k < T; k++)
    for (let c = 0; c < 6; c++)
      if (c < 3 === from < 3) largest = Math.max(largest, Math.abs(inJoint[(k * J + j) * 6 + c]));
  const scaleOf = from < 3 ? typicalForce : typicalForce * S.radius;
  for (let c = from; c < from + 3; c++) {
    const data = new Float32Array(T);
    let big = 0;
    for (let k = 0; k < T; k++) {
      data[k] = inJoint[(k * J + j) * 6 + c];
      big = Math.max(big, Math.abs(data[k]));
    }
    if (big > 1e-6 * largest && big > 1e-9 * scaleOf)
      curves.push({
        label: COMPONENTS[c] + (joint.sure[c] ? "" : " (by rule)"),
        data,
        c: S.curve_colours[c % 3],
        dashed: !joint.sure[c],
      });
  }
  const what = from < 3 ? "reaction force" : "reaction torque";
  return {
    joint: joint.name,
    title: `${what} of ${joint.name} on ${joint.bodies.at(-1)}, along the joint's own axes`,
    unit: from < 3 ? "N" : "N m",
    curves,
  };
}
let forcePlot, torquePlot;
function select(j) {
  state.selected = j;
  dirty = true;
  forcePlot.set(reactionPanel(j, 0));
  torquePlot.set(reactionPanel(j, 3));
  [...$("joints").children].forEach((b, k) => b.setAttribute("aria-pressed", k === j));
}
