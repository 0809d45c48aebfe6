import { Closed } from '../../http/wire.ts'
import { actionRoute } from '../../operations/change_routes.ts'
import { approved, refuseClosed } from './approve.ts'
import { changeSets } from './routes.ts'
import { ChangeSetApprove } from './schema.ts'
import { type ChangeSetRow, markWithdrawn } from './store.ts'

const permit = (_tx: unknown, _caller: unknown, row: ChangeSetRow) => refuseClosed(row)

const approve = actionRoute(changeSets, {
  verb: 'approve',
  summary: 'Approve a change set that another person made. It can then be applied, as long as it is not changed',
  access: 'admin',
  body: ChangeSetApprove,
  errors: ['ERR_CHANGE_SET_APPLIED', 'ERR_NOT_INDEPENDENT'],
  permit,
  apply: approved,
  audited: () => ({}),
})

const withdraw = actionRoute(changeSets, {
  verb: 'withdraw',
  summary: 'Withdraw a change set that will not be applied. It stays in the list',
  access: 'anyone',
  body: Closed({}),
  errors: ['ERR_CHANGE_SET_APPLIED'],
  permit,
  apply: (tx, { caller }, before) => markWithdrawn(tx, caller, before.id),
  audited: () => ({}),
})

export const approvalRoutes = [
  { ...approve, alone: true as const },
  { ...withdraw, alone: true as const },
]
