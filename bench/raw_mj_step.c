// The physics alone: mj_step over recorded controls and restarts, as one environment of a rollout went through them.
#include <mujoco/mujoco.h>
#include <string.h>
#include <time.h>

// CPU seconds of num_steps control steps. restart[t] >= 0: before step t the episode starts anew at that row of qpos and
// qvel. contact: with the contact forces that some tasks read after each step.
double run(void* m, void* d, int num_steps, int frame_skip, const double* ctrl, const int* restart, const double* qpos,
           const double* qvel, int contact) {
  const mjModel* model = m;
  mjData* data = d;
  struct timespec begin, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  for (int step = 0; step < num_steps; step++) {
    if (restart[step] >= 0) {
      mj_resetData(model, data);
      memcpy(data->qpos, qpos + restart[step] * model->nq, model->nq * sizeof(double));
      memcpy(data->qvel, qvel + restart[step] * model->nv, model->nv * sizeof(double));
      mj_forward(model, data);
    }
    memcpy(data->ctrl, ctrl + step * model->nu, model->nu * sizeof(double));
    for (int i = 0; i < frame_skip; i++) mj_step(model, data);
    if (contact) mj_rnePostConstraint(model, data);
  }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
