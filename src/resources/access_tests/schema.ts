import { Type } from 'typebox'
import {
  AccessOutcome,
  AccessTestTarget,
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  PathId,
  type Static,
  Text,
  Timestamp,
  Uri,
  Volatile,
} from '../../http/wire.ts'

const Address = Text(64, 'An IPv4 or IPv6 address.', '203.0.113.7')
const Expect = { ...AccessOutcome, description: 'Whether the address must be let in.' } as typeof AccessOutcome

export const AccessTestCreate = Closed({
  ...Annotations,
  address: Address,
  target: AccessTestTarget,
  expect: Expect,
})
export const AccessTestUpdate = Closed({
  id: PathId('act'),
  ...Annotations,
  address: Type.Optional(Address),
  target: Type.Optional(AccessTestTarget),
  expect: Type.Optional(Expect),
})

const Outcome = Type.Unsafe<'allowed' | 'refused' | 'unknown'>({
  type: 'string',
  enum: ['allowed', 'refused', 'unknown'],
  description: 'What would happen to the address now. `unknown`: no route has the path, or it could not be looked up.',
})
const Result = Type.Unsafe<'passed' | 'failed' | 'unknown'>({
  type: 'string',
  enum: ['passed', 'failed', 'unknown'],
  description:
    'Whether that is what is expected. A test that passed can fail without a change when a rule expires. `unknown` is not passed.',
})

export const AccessTest = Closed(
  {
    id: Id('act'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    address: Type.String({ description: 'In canonical form.' }),
    target: AccessTestTarget,
    expect: Expect,
    result: Volatile(Result),
    outcome: Volatile(Outcome),
    reason: Volatile(Type.String({ description: 'What decides it now.' })),
  },
  { title: 'AccessTest' },
)
export type AccessTest = Static<typeof AccessTest>

export const AccessTestQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('act'),
  type: Filter(AccessTestTarget.properties.type, 'Return only tests of this type of target.'),
  edge_id: Filter(Id('edgtcp'), 'Return only tests of this TCP edge.'),
  route_id: Filter(Id('edghtsrt'), 'Return only tests of this route.'),
  address: Filter(Address, 'Return only tests of this address.'),
  expect: Filter(AccessOutcome, 'Return only tests that expect this.'),
})
export type AccessTestQuery = Static<typeof AccessTestQuery>
