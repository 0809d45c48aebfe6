import { type TSchema, Type } from 'typebox'
import { exampleId } from '../../http/openapi/examples.ts'
import { Annotations, Closed, Filter, Id, type Static } from '../../http/wire.ts'
import { maxMembers, maxWeight } from '../../kernel/edge/backends.ts'
import type { Id as IdText } from '../../kernel/ids.ts'
import { queryOf, shownFields, updateFields } from './schema.ts'

const OfMember = <S extends TSchema>(id: S) => Filter(id, 'Return only backends that this one is a member of.')

export type Weights = Record<IdText<'bkdst'>, number>
const Weights = Type.Unsafe<Weights>({
  type: 'object',
  propertyNames: Id('bkdst'),
  additionalProperties: { type: 'integer', minimum: 0, maximum: maxWeight },
  minProperties: 1,
  maxProperties: maxMembers,
  examples: [{ [exampleId('bkdst')]: 10 }],
  description: `Static backends by id, and the weight of each, from 0 to ${maxWeight}. A backend gets its weight's share of the sum of all weights. Weight 0 drains: no new requests or connections, open ones finish. 1 to ${maxMembers} backends. PATCH replaces all of them.`,
})
const WeightsShown = Type.Unsafe<Weights>({
  type: 'object',
  additionalProperties: { type: 'integer' },
  description: 'Static backends by id, and the weight of each.',
})

export const WeightedBackendCreate = Closed({ ...Annotations, backends: Weights })
export const WeightedBackendUpdate = updateFields('bkdwd', { backends: Type.Optional(Weights) })
export const WeightedBackend = shownFields('bkdwd', 'WeightedBackend', { backends: WeightsShown })
export type WeightedBackend = Static<typeof WeightedBackend>
export const WeightedBackendQuery = queryOf('bkdwd', { backend_id: OfMember(Id('bkdst')) })

const Order = Type.Array(Id('bkdst', 'bkdhr'), {
  minItems: 1,
  maxItems: maxMembers,
  uniqueItems: true,
  description: `Static backends in order of preference: the first that is up gets everything. The last can be an HTTP response backend, which answers when none is up; TCP edges cannot use such a backend. 1 to ${maxMembers} backends. PATCH replaces all of them.`,
})

export const FailoverBackendCreate = Closed({ ...Annotations, backends: Order })
export const FailoverBackendUpdate = updateFields('bkdfo', { backends: Type.Optional(Order) })
export const FailoverBackend = shownFields('bkdfo', 'FailoverBackend', {
  backends: Type.Array(Id('bkdst', 'bkdhr'), { description: 'In order of preference.' }),
})
export type FailoverBackend = Static<typeof FailoverBackend>
export const FailoverBackendQuery = queryOf('bkdfo', { backend_id: OfMember(Id('bkdst', 'bkdhr')) })
