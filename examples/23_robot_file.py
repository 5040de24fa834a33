"""22 · A robot as its maker describes it (URDF): what is taken over, its torques, and the same as a model file."""

from pathlib import Path

import dalembert as da

INERTIA = '<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.001"/>'
Path("arm.urdf").write_text(f"""<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 0.25"/><mass value="2"/>{INERTIA}</inertial>
    <visual><origin xyz="0 0 0.25"/><geometry><capsule radius="0.04" length="0.5"/></geometry></visual></link>
  <link name="lower"><inertial><origin xyz="0 0 0.2"/><mass value="1"/>{INERTIA}</inertial></link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 1"/><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="40" velocity="3"/><dynamics damping="0.5"/></joint>
  <joint name="elbow" type="continuous">
    <origin xyz="0 0 0.5"/><parent link="upper"/><child link="lower"/><axis xyz="0 1 0"/></joint>
  <joint name="flange" type="fixed"><origin xyz="0 0 0.4"/><parent link="lower"/><child link="tool"/></joint>
</robot>""")

found = da.io.read("arm.urdf", start={"shoulder": 0.8, "elbow": -0.3})
print(f"{len(found.model.bodies)} bodies, joints {', '.join(found.model.constraints)}; remarks:")
for remark in found.remarks:
    print(f"  - {remark}")

system = da.build(found.model, coordinates="joint")
gravity = -system.force(0.0, system.q0, 0 * system.v0)
for name, torque in zip(system.coordinate_names, gravity, strict=True):
    print(f"torque that holds {name}: {float(torque):+.3f} N m")

da.save(found.model, "arm.yaml", summary="from arm.urdf")
print("written: arm.yaml, the same model:", da.load("arm.yaml") == found.model)
