import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { useWaitingKeys } from '../../api/people.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Tabs } from '../../ui/tabs.tsx'
import { Ago } from '../../ui/time.tsx'
import { ChangeList } from '../audit/list.tsx'
import { Access } from '../keys/access.tsx'
import { Expiry } from '../keys/columns.tsx'
import { CreateKey } from '../keys/create.tsx'
import { type ApiKey, nameOf, UsedAt } from '../keys/key.tsx'
import { PersonState, roleOf } from './columns.tsx'
import { BotForm, UserForm } from './forms.tsx'
import { InvitationSection } from './invitation.tsx'
import type { Person } from './person.ts'
import { DeletePerson, SetActive } from './questions.tsx'

type Open = 'key' | 'edit' | 'active' | 'delete'
type Props = { person: Person; isAdmin: boolean }

/** A user or a bot: its keys, how it signs in, what it did, and what was done to it. */
export function PersonDetail({ person, isAdmin }: Props) {
  const [open, setOpen] = useState<Open>()
  const navigate = useNavigate()
  const close = () => setOpen(undefined)
  return (
    <>
      <PageHeader
        title={person.name}
        parent={{ to: '/people', name: 'People and bots' }}
        status={<PersonState person={person} />}
        meta={
          <>
            <span>{roleOf(person)}</span>
            {person.kind === 'user' && <span>{person.email}</span>}
            <CopyId id={person.id} />
          </>
        }
      >
        {isAdmin && (
          <>
            {person.active && (
              <Button kind="primary" icon="plus" onPress={() => setOpen('key')}>
                Create key
              </Button>
            )}
            <PageMenu
              groups={() => [
                {
                  entries: [
                    { label: 'Edit…', icon: 'edit', onAction: () => setOpen('edit') },
                    {
                      label: person.active ? 'Deactivate…' : 'Activate…',
                      icon: person.active ? 'lock' : 'allowed',
                      onAction: () => setOpen('active'),
                    },
                  ],
                },
                { entries: [{ label: 'Delete…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') }] },
              ]}
            />
          </>
        )}
      </PageHeader>
      <Tabs
        label={person.kind === 'user' ? 'Parts of the user' : 'Parts of the bot'}
        tabs={[
          { id: 'keys', title: 'Access', children: <AccessOf person={person} isAdmin={isAdmin} /> },
          ...(isAdmin
            ? [
                { id: 'made', title: 'Changes made', children: <ChangeList ownerId={person.id} /> },
                { id: 'history', title: 'History', children: <ChangeList resourceId={person.id} /> },
              ]
            : []),
        ]}
      />
      {open === 'key' && <CreateKey ownerId={person.id} onClose={close} />}
      {open === 'edit' &&
        (person.kind === 'user' ? (
          <UserForm user={person} onClose={close} />
        ) : (
          <BotForm bot={person} onClose={close} />
        ))}
      {open === 'active' && <SetActive person={person} isActive={!person.active} onClose={close} />}
      {open === 'delete' && <DeletePerson person={person} onClose={close} onDeleted={() => void navigate('/people')} />}
    </>
  )
}

function AccessOf({ person, isAdmin }: Props) {
  return (
    <>
      <Keys ownerId={person.id} />
      {isAdmin && person.kind === 'user' && <InvitationSection person={person} />}
      {isAdmin && person.kind === 'user' && <SignIns ownerId={person.id} />}
    </>
  )
}

const keyColumns = (waiting: ReadonlySet<string>): Column<ApiKey>[] => [
  {
    title: 'Key',
    className: 'a1',
    isRowHead: true,
    cell: (key) => (
      <>
        <Link to={`/keys/${key.id}`}>{nameOf(key)}</Link>{' '}
        {waiting.has(key.id) && <span className="tag">Not accepted yet</span>}
      </>
    ),
  },
  { title: 'Access', className: 'b1', cell: (key) => <Access apiKey={key} /> },
  {
    title: 'Last used',
    className: 'b2',
    cell: ({ last_used_at }) => (last_used_at ? <UsedAt hour={last_used_at} /> : <span className="soft">Never</span>),
  },
  { title: 'Expires', cell: (key) => <Expiry apiKey={key} isWaiting={waiting.has(key.id)} /> },
]

function Keys({ ownerId }: { ownerId: string }) {
  const keys = useQuery(queries.keys())
  const waiting = useWaitingKeys()
  const owned = keys.data?.filter(({ owner_id }) => owner_id === ownerId)
  return (
    <Section title="API keys" note={owned?.length || undefined}>
      {keys.isError && <p className="note warned">The keys could not be read.</p>}
      {owned?.length === 0 && (
        <div className="frame">
          <Empty title="No API key" />
        </div>
      )}
      {owned && owned.length > 0 && (
        <DataTable label="API keys" rows={owned} keyOf={({ id }) => id} columns={keyColumns(waiting)} />
      )}
    </Section>
  )
}

/** The people at a provider who sign in as this user. */
function SignIns({ ownerId }: { ownerId: string }) {
  const identities = useQuery(queries.identities())
  const [leaving, setLeaving] = useState<Shapes['Identity']>()
  const refresh = useRefresh()
  const own = identities.data?.filter(({ owner_id }) => owner_id === ownerId)
  return (
    <Section title="Signs in through" note={own?.length || undefined}>
      {identities.isError && <p className="note warned">The sign-ins could not be read.</p>}
      {own?.length === 0 && <p className="soft">No provider: only with the token of an API key.</p>}
      <ul className="plain-list">
        {own?.map((identity) => (
          <li key={identity.id}>
            {identity.provider ?? identity.issuer}, as <span className="mono">{identity.subject}</span>,{' '}
            {identity.last_sign_in_at ? (
              <>
                last <Ago at={identity.last_sign_in_at} />
              </>
            ) : (
              'never'
            )}{' '}
            <button type="button" className="link" onClick={() => setLeaving(identity)}>
              Unlink…
            </button>
          </li>
        ))}
      </ul>
      {leaving && (
        <Confirm
          title="Unlink this sign-in?"
          action="Unlink"
          act={() => answerOf(api.DELETE('/identities/{id}', { params: { path: { id: leaving.id } } }))}
          onDone={async () => {
            setLeaving(undefined)
            await refresh('/identities')
          }}
          onClose={() => setLeaving(undefined)}
        >
          <p>Its sessions end, and so do keys that the command line got through it. The next sign-in is a first one.</p>
        </Confirm>
      )}
    </Section>
  )
}
