import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { signInOptions } from '../../api/session.ts'
import { CardChoice } from '../../ui/card_choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { invite, LinkShown } from './invitation.tsx'

type Role = Shapes['User']['role']
const roles = [
  { value: 'viewer', title: 'Viewer', detail: 'Sees what members see and changes nothing' },
  { value: 'member', title: 'Member', detail: 'Manages policies, edges, backends and their own keys' },
  { value: 'admin', title: 'Admin', detail: 'Also restrictions, people, nodes and the audit log' },
] as const

export function UserForm({ user, onClose }: { user?: Shapes['User']; onClose: () => void }) {
  const { values, set, isDirty } = useDraft<{ name: string; email: string; role: Role }>({
    name: user?.name ?? '',
    email: user?.email ?? '',
    role: user?.role ?? 'viewer',
  })
  const refresh = useRefresh()
  // People who sign in through a provider need no key.
  const options = useQuery(signInOptions).data
  const canInvite = !user && options?.token === true
  const [wish, setWish] = useState<boolean>()
  const wantsLink = canInvite && (wish ?? options.providers.length === 0)
  const [invitation, setInvitation] = useState<Shapes['UserInvitation']>()
  // Creating both takes two requests: if the second fails, the next attempt edits what the first has created.
  const created = useRef<string>(undefined)
  const save = async () => {
    const id = user?.id ?? created.current
    const saved = id
      ? await answerOf(api.PATCH('/users/{id}', { params: { path: { id } }, body: values }))
      : await answerOf(api.POST('/users', { body: values }))
    created.current = saved.id
    return wantsLink ? invite(saved) : null
  }
  if (invitation) return <LinkShown name={values.name} invitation={invitation} onClose={onClose} />
  return (
    <FormDialog
      title={user ? `Edit ${user.name}` : 'Create user'}
      action={user ? 'Save user' : 'Create user'}
      isDirty={isDirty}
      save={save}
      onSaved={async (invited) => {
        if (invited) setInvitation(invited)
        await Promise.all([refresh('/users'), refresh('/api_keys')])
        if (!invited) onClose()
      }}
      onClose={(isSent) => {
        if (created.current && !isSent) refresh('/users').catch(() => {})
        onClose()
      }}
    >
      <Field label="Name" name="name" autoFocus value={values.name} onChange={set('name')} />
      <Field
        label="Email"
        name="email"
        type="email"
        value={values.email}
        onChange={set('email')}
        hint="For you to know who it is. Gatehouse sends no email."
      />
      <CardChoice label="Role" name="role" value={values.role} onChange={set('role')} options={roles} />
      {canInvite && (
        <Switch isSelected={wantsLink} onChange={setWish}>
          Create a link to sign in, which works once within 7 days
        </Switch>
      )}
    </FormDialog>
  )
}

export function BotForm({ bot, onClose }: { bot?: Shapes['BotUser']; onClose: () => void }) {
  const { values, set, isDirty } = useDraft({ name: bot?.name ?? '' })
  const refresh = useRefresh()
  return (
    <FormDialog
      title={bot ? `Edit ${bot.name}` : 'Create bot'}
      action={bot ? 'Save bot' : 'Create bot'}
      isDirty={isDirty}
      save={() =>
        bot
          ? answerOf(api.PATCH('/bot_users/{id}', { params: { path: { id: bot.id } }, body: values }))
          : answerOf(api.POST('/bot_users', { body: values }))
      }
      onSaved={async () => {
        await refresh('/bot_users')
        onClose()
      }}
      onClose={onClose}
    >
      <Field
        label="Name"
        name="name"
        autoFocus
        value={values.name}
        onChange={set('name')}
        hint="The program that uses its keys. Bots are members and cannot sign in to the dashboard."
      />
    </FormDialog>
  )
}
