import type { Node, Registry, Request, State } from './state.ts';
import type { Variant } from './variants.ts';

export interface Step {
  readonly label: string;
  readonly next: State;
}

export type At = 0 | 1;

export function withNode(state: State, at: At, node: Node): State {
  const nodes: [Node, Node] = [...state.nodes];
  nodes[at] = node;
  return { ...state, nodes };
}

export function withDb(state: State, db: Registry, variant: Variant): State {
  return { ...state, db, replica: variant.lossyReplica === true ? state.db : undefined };
}

export const spent = (state: State, what: keyof State['budget']): State => ({
  ...state,
  budget: { ...state.budget, [what]: state.budget[what] - 1 },
});

export const sent = (state: State, request: Request): State => ({
  ...state,
  requests: [...state.requests, request],
});
