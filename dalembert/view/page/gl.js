// WebGL 2: programs, the shadow map, and what is sent to the graphics card.
const canvas = $("view"),
  gl = canvas.getContext("webgl2", { antialias: true, alpha: false, preserveDrawingBuffer: true });
if (!gl) {
  $("problem").hidden = false;
  $("problem").textContent = "This page draws with WebGL 2, which this browser does not offer.";
}
const program = (vs, fs) => {
  const p = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vs], [gl.FRAGMENT_SHADER, fs]]) {
    const s = gl.createShader(kind);
    gl.shaderSource(s, "#version 300 es\nprecision highp float;precision highp sampler2DShadow;\n" + text);
    gl.compileShader(s);
    if (!gl.getShaderParameter(s, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(s));
    gl.attachShader(p, s);
  }
  gl.linkProgram(p);
  const names = {};
  const count = gl.getProgramParameter(p, gl.ACTIVE_UNIFORMS);
  for (let k = 0; k < count; k++) {
    const n = gl.getActiveUniform(p, k).name;
    names[n] = gl.getUniformLocation(p, n);
  }
  return { p, u: names };
};
const SHADOW = `
uniform sampler2DShadow shadow;
float lit(vec4 s) {
  vec3 c = s.xyz / s.w * .5 + .5;
  if (any(lessThan(c, vec3(0))) || any(greaterThan(c, vec3(1)))) return 1.;
  float sum = 0.;
  for (int x = -1; x <= 1; x++)
    for (int y = -1; y <= 1; y++) sum += texture(shadow, vec3(c.xy + vec2(x, y) * 1.3 / 2048., c.z - .0012));
  return sum / 9.;
}`;
const SOLID = [`
layout(location=0) in vec3 a; layout(location=1) in vec3 n; layout(location=2) in vec3 c;
uniform mat4 M, V, L; uniform vec3 flatten;
out vec3 w, m, k; out vec4 s;
void main() {
  vec4 p = M * vec4(a, 1);
  w = p.xyz; m = mat3(M) * (n * flatten); k = c; s = L * p; gl_Position = V * p;
}`, SHADOW + `
in vec3 w, m, k; in vec4 s;
uniform vec3 eye, sun, up, ambient, tint, ahead; uniform float parallel, glow, opacity;
out vec4 o;
void main() {
  vec3 n = normalize(m), v = parallel > .5 ? -ahead : normalize(eye - w);
  if (dot(n, v) < 0.) n = -n;
  vec3 base = tint.x >= 0. ? tint : k, h = normalize(sun + v);
  float d = max(dot(n, sun), 0.), on = lit(s), sky = .5 + .5 * dot(n, up);
  vec3 c = base * (ambient * mix(.62, 1., sky) + .92 * d * on) + vec3(.16) * pow(max(dot(n, h), 0.), 42.) * on;
  c += base * .22 * pow(1. - max(dot(n, v), 0.), 3.);
  c = mix(c, base * 1.5 + .08, glow);
  o = vec4(pow(clamp(c, 0., 1.), vec3(1. / 2.2)), opacity);
}`];
const DEPTH = [`
layout(location=0) in vec3 a; uniform mat4 M, L;
void main() { gl_Position = L * M * vec4(a, 1); }`, `void main() {}`];
const FLOOR = [`
uniform mat4 V, L; uniform vec3 o, x, y; uniform float reach;
out vec2 q; out vec3 w; out vec4 s;
void main() {
  q = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2. - 1.;
  w = o + (x * q.x + y * q.y) * reach; s = L * vec4(w, 1); gl_Position = V * vec4(w, 1);
}`, SHADOW + `
in vec2 q; in vec3 w; in vec4 s;
uniform vec3 x, y, ground, lines; uniform float cell, seen;
out vec4 o;
float grid(vec2 p, float width) {
  vec2 d = fwidth(p), g = abs(fract(p - .5) - .5) / max(d, vec2(1e-6));
  vec2 k = 1. - smoothstep(width - .5, width + .5, g);
  k *= 1. - smoothstep(.25, .6, d);
  return max(k.x, k.y);
}
void main() {
  vec2 p = vec2(dot(w, x), dot(w, y)) / cell;
  float near = 1. - smoothstep(.30, .98, length(q));
  vec3 c = mix(ground, lines, max(.55 * grid(p, .6), grid(p / 5., .9)) * near);
  c *= mix(1., .80, (1. - lit(s)) * near);
  o = vec4(c, seen * near);
}`];
// a line of constant width on the screen; what lies after `now` is faint
const RIBBON = [`
layout(location=0) in vec3 a; layout(location=1) in vec3 b;
uniform mat4 V; uniform vec2 screen; uniform float width, now;
out float past;
void main() {
  vec4 p = V * vec4(a, 1), q = V * vec4(b, 1);
  bool far = (gl_VertexID & 1) == 1;
  float side = gl_VertexID >> 1 == 0 ? 1. : -1.;
  vec2 d = (q.xy / q.w - p.xy / p.w) * screen;
  d = length(d) > 1e-6 ? normalize(d) : vec2(1, 0);
  vec4 r = far ? q : p;
  r.xy += (vec2(-d.y, d.x) * side + d * (far ? .5 : -.5)) * width / screen * r.w;
  r.z -= 2e-4 * r.w;
  past = float(gl_InstanceID) <= now ? 1. : 0.;
  gl_Position = r;
}`, `
in float past; uniform vec3 tone; uniform float faint; out vec4 o;
void main() { o = vec4(tone, past > .5 ? 1. : faint); }`];

let solid, floorP, ribbon, depthP;
const shadowMap = {};
function start() {
  solid = program(...SOLID);
  depthP = program(...DEPTH);
  floorP = program(...FLOOR);
  ribbon = program(...RIBBON);
  shadowMap.t = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, shadowMap.t);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, 2048, 2048);
  for (const [k, v] of [
    [gl.TEXTURE_MIN_FILTER, gl.LINEAR],
    [gl.TEXTURE_MAG_FILTER, gl.LINEAR],
    [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE],
    [gl.TEXTURE_COMPARE_FUNC, gl.LEQUAL],
  ])
    gl.texParameteri(gl.TEXTURE_2D, k, v);
  shadowMap.f = gl.createFramebuffer();
  gl.bindFramebuffer(gl.FRAMEBUFFER, shadowMap.f);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, shadowMap.t, 0);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
}
const upload = mesh => {
  if (!mesh.i.length) return null;
  const vao = gl.createVertexArray();
  gl.bindVertexArray(vao);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(mesh.v), gl.STATIC_DRAW);
  for (let k = 0; k < 3; k++) {
    gl.enableVertexAttribArray(k);
    gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 36, 12 * k);
  }
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint32Array(mesh.i), gl.STATIC_DRAW);
  gl.bindVertexArray(null);
  return { vao, n: mesh.i.length };
};
const path = (points, dynamic) => {
  const vao = gl.createVertexArray(), buffer = gl.createBuffer();
  gl.bindVertexArray(vao);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, points, dynamic ? gl.DYNAMIC_DRAW : gl.STATIC_DRAW);
  for (let k = 0; k < 2; k++) {
    gl.enableVertexAttribArray(k);
    gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 12, 12 * k);
    gl.vertexAttribDivisor(k, 1);
  }
  gl.bindVertexArray(null);
  return { vao, buffer, n: points.length / 3 - 1 };
};
