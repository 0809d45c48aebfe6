import { Type } from 'typebox'
import { Closed, TimestampOrNull } from '../http/wire.ts'
import { type Code, type Rollout, type State, type Status, states } from './status.ts'

const Shape = Closed(
  {
    state: Type.Unsafe<State>({
      type: 'string',
      enum: [...states],
      description:
        'up: it works. degraded: it works in part, or will soon stop. down: it does not work. unknown: the control plane cannot tell.',
    }),
    code: Type.Unsafe<Code>({
      type: 'string',
      description:
        'Why, for programs, such as servers_down. docs/explain/health.md lists all codes; more may be added.',
    }),
    reason: Type.String({ description: 'Why, in one sentence.' }),
    since: TimestampOrNull('When it got this state. Null: not known.'),
    rollout: Type.Optional(
      Closed(
        {
          id: Type.String({ description: 'The rollout.' }),
          state: Type.Unsafe<Rollout['state']>({
            type: 'string',
            enum: ['watching', 'halted'],
            description: 'watching: some nodes have the change, and others do not yet. halted: no node has it.',
          }),
          reason: Type.Unsafe<string | null>({
            type: ['string', 'null'],
            description: 'Why it was halted, if it was.',
          }),
        },
        {
          title: 'StatusRollout',
          description: 'A rollout with a change of it that is not on every node. Omitted when there is none.',
        },
      ),
    ),
  },
  { title: 'Status' },
)

/** Read-only, computed for each response. Not part of the ETag that If-Match compares. */
export const StatusShown = Type.Optional(
  Type.Unsafe<Status>({
    ...Shape,
    'x-volatile': true,
    description: 'How it is now, as far as the control plane knows.',
  }),
)
