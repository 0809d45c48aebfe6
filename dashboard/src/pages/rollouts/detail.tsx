import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { $api } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { usePeople } from '../../api/people.ts'
import { queries } from '../../api/queries.ts'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Section } from '../../ui/section.tsx'
import { Ago } from '../../ui/time.tsx'
import { deedOf } from '../audit/describe.ts'
import { ChangeList } from '../audit/list.tsx'
import { Actions } from './actions.tsx'
import { Answer } from './answer.tsx'
import { Signals } from './signals.tsx'
import { WavesAndNodes } from './waves.tsx'
import { authorOf, type Details, StateOf, titleOf, useNames, whoOf } from './words.tsx'

const count = new Intl.NumberFormat('en')

/** Progress of one rollout, its nodes, the reason for a halt, and the possible actions. */
export function RolloutDetail({ id }: { id: string }) {
  const found = useQuery(queries.rollout(id))
  const role = $api.useQuery('get', '/caller').data?.role
  const nameOf = useNames()
  const people = usePeople()
  const rollout = found.data?.rollout
  return (
    <>
      <PageHeader
        title={rollout ? titleOf(rollout, nameOf) : id}
        parent={{ to: '/rollouts', name: 'Rollouts' }}
        status={rollout && <StateOf state={rollout.state} />}
        meta={
          <>
            {rollout && (
              <>
                <span>
                  {authorOf(rollout, people)}, <Ago at={rollout.created_at} />
                </span>
                <span>Cell {rollout.cell}</span>
                <span>Generation {count.format(rollout.generation)}</span>
              </>
            )}
            <CopyId id={id} />
          </>
        }
      >
        {found.data && <Actions rollout={found.data.rollout} etag={found.data.etag} isAdmin={role === 'admin'} />}
      </PageHeader>
      <Loaded query={found} lines={6}>
        {({ rollout }) => (
          <>
            <Answer rollout={rollout} />
            <Allowance rollout={rollout} role={role} />
            <WavesAndNodes rollout={rollout} />
            <Signals rollout={rollout} isAdmin={role === 'admin'} />
            <Changes rollout={rollout} isAdmin={role === 'admin'} />
            {role === 'admin' && (
              <Section title="History">
                <ChangeList resourceId={id} />
              </Section>
            )}
          </>
        )}
      </Loaded>
    </>
  )
}

/** Why a button that the guide mentions is missing. */
function Allowance({ rollout: { state }, role }: { rollout: Details; role: string | undefined }) {
  const mayChange = useMayChange()
  if (role === undefined || role === 'admin' || state === 'released' || state === 'waiting') return null
  return (
    <p className="fine">
      {mayChange
        ? 'Only admins can release it without a watch.'
        : 'You are a viewer: you can follow this rollout, and a member or an admin can halt, resume or revert it.'}
    </p>
  )
}

function Changes({ rollout: { changes, change_count }, isAdmin }: { rollout: Details; isAdmin: boolean }) {
  const nameOf = useNames()
  const people = usePeople()
  return (
    <Section
      title="Changes"
      note={changes.length > 0 && change_count > changes.length ? `the latest ${changes.length}` : undefined}
    >
      {changes.length === 0 ? (
        <p className="soft">
          {change_count === 0
            ? 'The service made it by itself: no one asked for a change.'
            : 'The audit events of its changes have been deleted.'}
        </p>
      ) : (
        <ol className="frame feed">
          {changes.map(({ audit_event_id, created_at, operation, resource_id, owner_id }) => {
            const named = nameOf(resource_id)
            return (
              <li key={audit_event_id}>
                <span>
                  <b className="strong">{whoOf(owner_id, people)}</b> <span className="soft">{deedOf(operation)}</span>{' '}
                  {named ? (
                    <Link to={named.to}>{named.name}</Link>
                  ) : (
                    <span className="mono changed-id">{resource_id}</span>
                  )}
                </span>
                <span className="fine">
                  {isAdmin && (
                    <Link to={`/audit?resource=${resource_id}`}>
                      What changed<span className="for-readers"> in {named?.name ?? resource_id}</span>
                    </Link>
                  )}{' '}
                  <Ago at={created_at} />
                </span>
              </li>
            )
          })}
        </ol>
      )}
    </Section>
  )
}
