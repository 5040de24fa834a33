# The front door: what is typed every day, in the order in which data flows, then the rooms. This is the only list of
# these names: type checkers read it, and `__init__.py` loads from it when a name is first used.
from dalembert.model import deg as deg
from dalembert.model import Model as Model
from dalembert.io import load as load
from dalembert.io import save as save
from dalembert.mechanisms import mechanism as mechanism
from dalembert.systems import build as build
from dalembert.systems import FunctionSystem as FunctionSystem
from dalembert.equations import assemble as assemble
from dalembert.simulation import prepare as prepare
from dalembert.simulation import simulate as simulate
from dalembert.simulation import simulate_many as simulate_many
from dalembert.results import open as open
from dalembert.analysis import check as check
from dalembert.analysis import solve_pose as solve_pose
from dalembert.analysis import sweep_pose as sweep_pose
from dalembert.analysis import kinematics as kinematics
from dalembert.analysis import equilibrium as equilibrium
from dalembert.analysis import quasistatic as quasistatic
from dalembert.analysis import linearise as linearise
from dalembert.analysis import inverse_dynamics as inverse_dynamics
from dalembert.analysis import assembly as assembly
from dalembert.studies import study as study
from dalembert.studies import optimise as optimise
from dalembert.studies import identify as identify
from dalembert.reports import report as report

from dalembert import kernels as kernels
from dalembert import model as model
from dalembert import functions as functions
from dalembert import io as io
from dalembert import mechanisms as mechanisms
from dalembert import linalg as linalg
from dalembert import complements as complements
from dalembert import systems as systems
from dalembert import symbolic as symbolic
from dalembert import loads as loads
from dalembert import equations as equations
from dalembert import formulations as formulations
from dalembert import stabilise as stabilise
from dalembert import reactions as reactions
from dalembert import simulation as simulation
from dalembert import results as results
from dalembert import analysis as analysis
from dalembert import studies as studies
from dalembert import reports as reports
from dalembert import view as view
from dalembert import errors as errors

__version__: str
