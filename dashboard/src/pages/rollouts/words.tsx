import { useQuery } from '@tanstack/react-query'
import { useCallback } from 'react'
import type { Shapes } from '../../api/client.ts'
import type { usePeople } from '../../api/people.ts'
import { queries } from '../../api/queries.ts'
import { Badge, type Tone } from '../../ui/badge.tsx'
import { deedOf } from '../audit/describe.ts'

export type Rollout = Shapes['Rollout']
export type Details = Shapes['RolloutDetails']
export type State = Rollout['state']

const states: Record<State, { tone: Tone; word: string }> = {
  watching: { tone: 'neutral', word: 'Watching' },
  waiting: { tone: 'neutral', word: 'Waiting' },
  releasing: { tone: 'neutral', word: 'Releasing' },
  released: { tone: 'allowed', word: 'Released' },
  halted: { tone: 'warned', word: 'Halted' },
}
export const wordOf = (state: State): string => states[state]?.word ?? state

/** Shows a state unknown to this version under its API name. */
export const StateOf = ({ state }: { state: State }) => (
  <Badge tone={states[state]?.tone ?? 'neutral'}>{wordOf(state)}</Badge>
)

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

/** Progress in a few words. */
export function placeOf({ state, wave, waves }: Pick<Rollout, 'state' | 'wave' | 'waves'>): string {
  if (state === 'released') return counted(waves, 'wave')
  if (wave === null) return 'on no node'
  return wave === waves - 1 ? `wave ${wave}, the last` : `wave ${wave}; the last is ${waves - 1}`
}

/** A sentence of the service with names instead of ids of edges and routes. */
export const withNames = (sentence: string, nameOf: ReturnType<typeof useNames>): string =>
  sentence.replaceAll(/\bedg(?:htsrt|hts|tcp)_[0-9a-z]{26}\b/g, (id) => nameOf(id)?.name ?? id)

type Named = { name: string; to: string }

/** Name and page of a resource. Undefined if it was deleted or its list is not loaded here. */
export function useNames(): (id: string) => Named | undefined {
  const policies = useQuery({ ...queries.policies(), staleTime: 60_000 }).data
  const https = useQuery(queries.httpsEdges()).data
  const tcp = useQuery(queries.tcpEdges()).data
  const backends = useQuery(queries.backends()).data
  return useCallback(
    (id: string) => {
      const policy = policies?.find((each) => each.id === id)
      if (policy) return { name: policy.description ?? id, to: `/policies/${id}` }
      const backend = backends?.find((each) => each.id === id)
      if (backend) return { name: backend.description ?? backend.address, to: `/backends/${id}` }
      const edge = [...(https ?? []), ...(tcp ?? [])].find((each) => each.id === id)
      if (edge) return { name: edge.description ?? edge.hostports[0] ?? id, to: `/edges/${id}` }
      for (const { id: edgeId, hostports, routes } of https ?? []) {
        const route = routes.find((each) => each.id === id)
        if (route) return { name: `${hostports[0] ?? ''}${route.match}`, to: `/edges/${edgeId}` }
      }
      return undefined
    },
    [policies, https, tcp, backends],
  )
}

/** 'Created rule and 2 more changes': the latest change, and the number of others. */
export function titleOf(
  { latest_change: latest, change_count: changes }: Pick<Rollout, 'latest_change' | 'change_count'>,
  nameOf: ReturnType<typeof useNames>,
): string {
  if (!latest) return changes === 0 ? 'Change by the service' : counted(changes, 'change')
  const deed = deedOf(latest.operation)
  const name = nameOf(latest.resource_id)?.name
  const first = `${deed.charAt(0).toUpperCase()}${deed.slice(1)}${name ? ` ${name}` : ''}`
  return changes > 1 ? `${first} and ${counted(changes - 1, 'more change')}` : first
}

/** Null: a command on the server. */
export const whoOf = (ownerId: string | null, people: ReturnType<typeof usePeople>): string =>
  ownerId === null ? 'A command on the server' : (people?.find(({ id }) => id === ownerId)?.name ?? ownerId)

export const authorOf = (
  { latest_change: latest, change_count }: Pick<Rollout, 'latest_change' | 'change_count'>,
  people: ReturnType<typeof usePeople>,
): string => (latest ? whoOf(latest.owner_id, people) : change_count === 0 ? 'The service' : 'Not known')
