import type { Command } from '../maps/claims.ts'
import type { MapName } from '../maps/entries.ts'

/** Something in HAProxy that differs from the agent's state. */
export type Difference = {
  readonly what: MapName | 'native backend' | 'certificate' | 'client authorities'
  readonly name: string
  readonly kind: 'changed' | 'missing' | 'unexpected'
}

const kinds = { set: 'changed', add: 'missing', del: 'unexpected' } as const

export const repairedBy = ({ kind, map, key }: Command): Difference => ({ what: map, name: key, kind: kinds[kind] })
