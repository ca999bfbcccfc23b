/* fluid_face.h - which of several best prices, and the plan that goes with them. */
#ifndef TG_POLICY_FLUID_FACE_H
#define TG_POLICY_FLUID_FACE_H

#include "lib/policy/fluid.h"

/* Takes, among all best vertices of a program that fluid_prices() has solved, the one which refuses
 * most types, then the one with the dearest slot-second, unit of cost, call. Sets `price` alone. */
void fluid_face_choose(struct fluid_program *program);

/* The plan for prices that were chosen so. On the axes of rate and cost, of all best plans the one
 * that is published for them; where that is none, and on three axes, the one that is there, which
 * goes with any best prices but for types of no weight. Sets `fraction` alone. */
void fluid_plan_choose(struct fluid_program *program);

#endif
