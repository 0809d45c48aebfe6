import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useNavigate, useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Empty } from '../ui/states.tsx'
import { Toolbar } from '../ui/toolbar.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { peopleColumns } from './people/columns.tsx'
import { PersonDetail } from './people/detail.tsx'
import { BotForm, UserForm } from './people/forms.tsx'
import { type Open, type Person, standingOf, withKeys } from './people/person.ts'
import { DeletePerson, SetActive } from './people/questions.tsx'

export function People() {
  const { id } = useParams()
  const users = useQuery(queries.users())
  const bots = useQuery(queries.bots())
  const keys = useQuery(queries.keys()).data
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const identities = useQuery({ ...queries.identities(), enabled: isAdmin }).data
  const [open, setOpen] = useState<Open>()
  useOpenOnArrival((what) => setOpen({ action: what === 'bot' ? 'create bot' : 'create user' }))
  const people = useMemo(
    () => users.data && bots.data && withKeys(users.data, bots.data, keys, identities),
    [users.data, bots.data, keys, identities],
  )
  const failed = [users, bots].find(({ isError }) => isError)
  const person = people?.find((each) => each.id === id)
  if (person) return <PersonDetail key={person.id} person={person} isAdmin={isAdmin} />
  if (people && id) return <Missing />
  return (
    <>
      <PageHeader title="People and bots" summary={people && sentenceOf(people)}>
        {isAdmin && (
          <>
            <Button icon="plus" onPress={() => setOpen({ action: 'create bot' })}>
              Create bot
            </Button>
            <Button kind="primary" icon="plus" onPress={() => setOpen({ action: 'create user' })}>
              Create user
            </Button>
          </>
        )}
      </PageHeader>
      {failed && <ProblemNote error={failed.error} retry={() => failed.refetch()} />}
      {!people && !failed && <Skeleton lines={6} />}
      {people && <PeopleTable people={people} isAdmin={isAdmin} onOpen={setOpen} />}
      {open && <Opened open={open} onClose={() => setOpen(undefined)} />}
    </>
  )
}

const Missing = () => (
  <>
    <PageHeader title="Not found" parent={{ to: '/people', name: 'People and bots' }} />
    <div className="frame">
      <Empty title="No such user or bot">It may have been deleted.</Empty>
    </div>
  </>
)

function Opened({ open, onClose }: { open: Open; onClose: () => void }) {
  if (!('person' in open))
    return open.action === 'create user' ? <UserForm onClose={onClose} /> : <BotForm onClose={onClose} />
  const { person } = open
  if (open.action === 'delete') return <DeletePerson person={person} onClose={onClose} />
  if (open.action === 'edit')
    return person.kind === 'user' ? (
      <UserForm user={person} onClose={onClose} />
    ) : (
      <BotForm bot={person} onClose={onClose} />
    )
  return <SetActive person={person} isActive={open.action === 'activate'} onClose={onClose} />
}

function sentenceOf(people: readonly Person[]): string {
  const of = (kind: Person['kind']) => people.filter((person) => person.kind === kind).length
  const admins = people.filter((person) => person.kind === 'user' && person.role === 'admin' && person.active).length
  const [users, bots] = [of('user'), of('bot')]
  return `${users} ${users === 1 ? 'user' : 'users'}, ${admins} of them ${admins === 1 ? 'an admin' : 'admins'}, and ${bots} ${bots === 1 ? 'bot' : 'bots'}.`
}

type View = 'all' | 'admin' | 'bot' | 'inactive' | 'invited' | 'never'
const isOfView: Record<View, (person: Person) => boolean> = {
  all: () => true,
  admin: (person) => person.kind === 'user' && person.role === 'admin',
  bot: ({ kind }) => kind === 'bot',
  inactive: ({ active }) => !active,
  invited: (person) => standingOf(person) === 'invited',
  never: (person) => person.kind === 'user' && !person.has_signed_in && !person.lastActive,
}

type TableProps = { people: readonly Person[]; isAdmin: boolean; onOpen: (open: Open) => void }

function PeopleTable({ people, isAdmin, onOpen }: TableProps) {
  const [search, setSearch] = useState('')
  const [view, setView] = useUrlState<View>('show', 'all')
  const navigate = useNavigate()
  const columns = useMemo(
    () => peopleColumns({ isAdmin, onOpen, onChanges: (id) => void navigate(`/audit?by=${id}`) }),
    [isAdmin, onOpen, navigate],
  )
  const chip = (value: View, label: string) => ({ value, label, count: people.filter(isOfView[value]).length })
  const wanted = search.trim().toLowerCase()
  const found = people.filter(isOfView[view] ?? isOfView.all).filter(({ text }) => text.includes(wanted))
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name, email or ID"
        chosen={view}
        onChoose={setView}
        chips={[
          chip('all', 'Everyone'),
          chip('admin', 'Admins'),
          chip('bot', 'Bots'),
          chip('invited', 'Invited'),
          chip('never', 'Never signed in'),
          chip('inactive', 'Inactive'),
        ]}
      />
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No one matches" />
        </div>
      ) : (
        <DataTable label="People and bots" rows={found} keyOf={({ id }) => id} columns={columns} isTwoLine />
      )}
    </>
  )
}
