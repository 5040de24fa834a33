// The scene that view/_scene.py describes: numbers over time, bodies, joints. Nothing is fetched.
const $ = id => document.getElementById(id);
const S = JSON.parse($("scene").textContent);
const floats = text => new Float32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
const make = (tag, parent, set = {}) => {
  const e = Object.assign(document.createElement(tag), set);
  parent.append(e);
  return e;
};

const t = floats(S.t), T = t.length, B = S.bodies.length - 1, J = S.joints.length;
const places = floats(S.places), force = floats(S.force), torque = floats(S.torque),
  inJoint = floats(S.in_joint);
const centres = floats(S.centre), plane = S.space === "plane", tEnd = t[T - 1], t0 = t[0];
// whether the reaction of a joint is not determined at a time
const doubtful = (joint, time) => S.doubts.some(d => d.low <= time && time <= d.high && d.joints.includes(joint.name));
