import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { Problem } from '../../api/problem.ts'
import { useRefresh } from '../../api/queries.ts'
import { signInOptions } from '../../api/session.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Section } from '../../ui/section.tsx'
import { Segments } from '../../ui/segments.tsx'
import { type Health, State } from '../../ui/state.tsx'
import { Ago } from '../../ui/time.tsx'

type Invitation = Shapes['UserInvitation']
type Person = { id: string; name: string; active: boolean }

const day = 86_400
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short' })
const pathOf = ({ id }: Pick<Person, 'id'>) => ({ params: { path: { id } } })

/** Its link is in this answer only. */
export const invite = (person: Pick<Person, 'id'>, days = 7): Promise<Invitation> =>
  answerOf(api.POST('/users/{id}/invitation', { ...pathOf(person), body: { expires_in_seconds: days * day } }))

/** The only time that anyone sees the link. */
export function LinkShown({
  name,
  invitation,
  onClose,
}: {
  name: string
  invitation: Invitation
  onClose: () => void
}) {
  const link = invitation.link ?? ''
  return (
    <Dialog title={`Invitation for ${name}`} onClose={onClose} mustAnswer>
      <p>
        Send {name} this link. It works once, until {moment.format(new Date(invitation.expires_at))}. The first person
        who accepts it gets the access, so use a channel that only {name} reads. It is not stored and cannot be shown
        again.
      </p>
      <output className="token mono" aria-label="Invitation link">
        {link}
      </output>
      <div className="actions">
        <CopyButton text={link} what="link" />
        <Button kind="primary" onPress={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  )
}

type Days = '1' | '7' | '30'
const lifetimes = [
  { value: '1', label: '1 day' },
  { value: '7', label: '7 days' },
  { value: '30', label: '30 days' },
] as const

function Invite({ person, isAnother, onClose }: { person: Person; isAnother: boolean; onClose: () => void }) {
  const [days, setDays] = useState<Days>('7')
  const [created, setCreated] = useState<Invitation>()
  const refresh = useRefresh()
  if (created) return <LinkShown name={person.name} invitation={created} onClose={onClose} />
  return (
    <FormDialog
      title={`Invite ${person.name}`}
      action="Create link"
      save={() => invite(person, Number(days))}
      onSaved={async (invitation) => {
        setCreated(invitation)
        await Promise.all([refresh('/users'), refresh('/api_keys')])
      }}
      onClose={onClose}
    >
      <p>
        {person.name} opens the link, gets an API key, and signs in with it.{' '}
        {isAnother && 'The link that you created before stops working.'}
      </p>
      <Segments label="Works for" name="expires_in_seconds" value={days} onChange={setDays} options={lifetimes} />
    </FormDialog>
  )
}

/** Null: the user was never invited. */
const useInvitation = (id: string) =>
  useQuery({
    queryKey: ['get', '/users/{id}/invitation', id],
    queryFn: () =>
      answerOf(api.GET('/users/{id}/invitation', pathOf({ id }))).catch((error) => {
        if (error instanceof Problem && error.code === 'ERR_NOT_FOUND') return null
        throw error
      }),
  })

/** The newest invitation of a user, for admins. Not where the operator has people sign in with a provider only. */
export function InvitationSection({ person }: { person: Person }) {
  const hasTokens = useQuery(signInOptions).data?.token
  const { data: invitation, isError } = useInvitation(person.id)
  const [open, setOpen] = useState<'invite' | 'withdraw'>()
  const refresh = useRefresh()
  const close = () => setOpen(undefined)
  if (!hasTokens) return null
  return (
    <Section
      title="Invitation"
      action={
        person.active && (
          <Button kind="quiet" icon="plus" onPress={() => setOpen('invite')}>
            Create link
          </Button>
        )
      }
    >
      {isError && <p className="note warned">The invitation could not be read.</p>}
      {invitation === null && (
        <p className="soft">Not invited yet. Create a link with which {person.name} gets an API key to sign in.</p>
      )}
      {invitation && <Shown invitation={invitation} onWithdraw={() => setOpen('withdraw')} />}
      {open === 'invite' && <Invite person={person} isAnother={invitation?.state === 'waiting'} onClose={close} />}
      {open === 'withdraw' && (
        <Confirm
          title={`Withdraw the invitation for ${person.name}?`}
          action="Withdraw"
          act={() => answerOf(api.DELETE('/users/{id}/invitation', pathOf(person)))}
          onDone={async () => {
            close()
            await Promise.all([refresh('/users'), refresh('/api_keys')])
          }}
          onClose={close}
        >
          <p>The link stops working immediately. You can create another one.</p>
        </Confirm>
      )}
    </Section>
  )
}

function Shown({ invitation, onWithdraw }: { invitation: Invitation; onWithdraw: () => void }) {
  const { state, expires_at, accepted_at, invited_by } = invitation
  const inviter = usePeople()?.find(({ id }) => id === invited_by)?.name ?? 'a deleted user'
  const [health, word] = words[state]
  return (
    <>
      <p>
        <State health={health}>{word}</State>
      </p>
      <p className="soft">
        {state === 'accepted' && accepted_at && (
          <>
            <Ago at={accepted_at} />. Invited by {inviter}.
          </>
        )}
        {state === 'waiting' && (
          <>
            Invited by {inviter}. The link works until {moment.format(new Date(expires_at))}.{' '}
            <button type="button" className="link" onClick={onWithdraw}>
              Withdraw…
            </button>
          </>
        )}
        {state === 'expired' &&
          `The link stopped working on ${moment.format(new Date(expires_at))}. Create another one.`}
        {state === 'withdrawn' && 'The link does not work any more.'}
      </p>
    </>
  )
}

const words: Record<Invitation['state'], [Health, string]> = {
  accepted: ['up', 'Accepted'],
  waiting: ['partial', 'Not accepted yet'],
  expired: ['unknown', 'Expired'],
  withdrawn: ['unknown', 'Withdrawn'],
}
