import { useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { Ago } from '../../ui/time.tsx'
import { deedOf } from '../audit/describe.ts'
import { Revert } from '../audit/revert.tsx'
import { Who } from '../audit/who.tsx'
import type { Names } from '../traffic/names.ts'

type RefusalCause = Shapes['RefusalCause']

/** The change or expiry that shut the address out, and when. */
export function Cause({ cause, names }: { cause: RefusalCause; names: Names }) {
  const { kind, at, audit_event, ip_policy, reason } = cause
  const [isReverting, setReverting] = useState(false)
  if (kind === 'change' && audit_event)
    return (
      <span className="two">
        <span>
          <Who ownerId={audit_event.owner_id} /> <span className="soft">{deedOf(audit_event.operation)}</span>{' '}
          {names.route(audit_event.resource_id) ?? names.policy(audit_event.resource_id)}
        </span>
        <small>
          {at && <Ago at={at} />} <Link to={`/audit?resource=${audit_event.resource_id}`}>View change</Link>{' '}
          <button type="button" className="link" onClick={() => setReverting(true)}>
            Revert…
          </button>
        </small>
        {isReverting && (
          <Revert
            title={`Revert “${deedOf(audit_event.operation)}”?`}
            reversal={{ kind: 'event', id: audit_event.id }}
            onClose={() => setReverting(false)}
          />
        )}
      </span>
    )
  if (kind === 'expiry' && ip_policy)
    return (
      <span className="two">
        <span>A rule that allowed it expired</span>
        <small>
          <Link to={`/policies/${ip_policy.id}`}>View policy</Link> {at && <Ago at={at} />}
        </small>
      </span>
    )
  return (
    <span className="two">
      <span className="soft">Unknown</span>
      <small>{reason}</small>
    </span>
  )
}
