import { Type } from 'typebox'
import { Closed, type Static, Timestamp } from './wire.ts'

/** Limit of listed places, and of listed addresses of each kind at a place. Totals count all of them. */
export const maxListed = 100

const Affected = (what: string) =>
  Closed(
    {
      total: Type.Integer({ description: `Number of addresses that ${what}.` }),
      addresses: Type.Array(Closed({ ip: Type.String(), last_seen_at: Timestamp }, { title: 'AffectedAddress' }), {
        description: `At most ${maxListed}, most recent first. Empty for callers who are not admins, because addresses are personal data.`,
      }),
    },
    { title: 'AffectedAddresses' },
  )

const oneOf = <Name extends string>(names: readonly Name[], description: string) =>
  Type.Unsafe<Name>({ type: 'string', enum: [...names], description })
const textOrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })

const PlaceImpact = Closed(
  {
    type: oneOf(['api', 'dashboard', 'agent', 'tcp_edge', 'route'] as const, 'Where the addresses were seen.'),
    id: textOrNull('The id of the TCP edge or route. Null for other traffic.'),
    uri: textOrNull('Where the TCP edge or route is.'),
    becomes: oneOf(
      ['changed', 'created', 'deleted'] as const,
      'What becomes of the edge or route. Addresses that were let in at one that is deleted are newly refused, unless another route gets its requests and lets them in.',
    ),
    evidence: oneOf(
      ['complete', 'partial', 'none'] as const,
      'How many of the addresses that were let in there are known. `none`: who would be newly refused is unknown, and newly_refused says nothing.',
    ),
    unknown_because: textOrNull('Why they are not all known, in one sentence. Null: they are.'),
    addresses: Type.Integer({ description: 'Number of addresses that were evaluated.' }),
    newly_refused: Affected('would be refused, and are not now'),
    newly_allowed: Affected('are refused now, and would be let in'),
    newly_warned: Affected('would be let in with a warning, and are let in without one now'),
  },
  { title: 'PlaceImpact' },
)
const Total = (what: string) =>
  Type.Integer({ description: `Number of addresses that ${what}, each counted once wherever it was seen.` })

export const ChangeImpact = Closed(
  {
    since: Timestamp,
    newly_refused: Total('would be refused somewhere'),
    newly_allowed: Total('would be let in somewhere'),
    newly_warned: Total('would be warned of somewhere'),
    unknown: Type.Integer({ description: 'Number of places whose evidence is not complete.' }),
    places: Type.Array(PlaceImpact, {
      description: `Where the change would decide about addresses in another way: at most ${maxListed}, those where most would be refused first. Empty if it decides about no address.`,
    }),
    more_places: Type.Integer({ description: 'Number of places that are not listed.' }),
  },
  { title: 'ChangeImpact' },
)
export type ChangeImpact = Static<typeof ChangeImpact>
export type PlaceImpact = ChangeImpact['places'][number]
