import type { CompletedOption, CompletedWords } from './completion-table.ts';

type Table = readonly CompletedWords[];

/** For each shell: where its script belongs, and what makes it. */
export const shells: Readonly<Record<string, (table: Table) => string>> = { bash, zsh, fish };

/** In single quotes, as bash and zsh have them. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Lines of a `case` over the words so far, without those for which there is nothing. */
function cases(table: Table, what: (words: CompletedWords) => string): string {
  return table
    .map((words) => ({ path: words.path, text: what(words) }))
    .filter(({ text }) => text !== '')
    .map(({ path, text }) => `    ${quote(path)}) ${text} ;;\n`)
    .join('');
}

/** Lines of a `case` over `WORDS OPTION` for options with a value: one for each set of values. */
function valueCases(table: Table): string {
  const byValues = new Map<string, string[]>();
  for (const { path, options } of table) {
    for (const { flags, values } of options) {
      if (values === null) continue;
      const text = values === 'anything' ? '' : values.join(' ');
      const patterns = byValues.get(text) ?? [];
      byValues.set(text, patterns);
      patterns.push(...flags.map((flag) => quote(`${path} ${flag}`)));
    }
  }
  return [...byValues]
    .map(([text, patterns]) => `    ${patterns.join(' | \\\n      ')}) values=${quote(text)} ;;\n`)
    .join('');
}

/**
 * What bash and zsh share: goes through the words before the cursor, and leaves in `at` the command so far, in `option`
 * one whose value is due, in `values` what that may be, in `behind` where another command begins.
 */
function walk(wordsArray: string, first: number, current: string): string {
  return `  local at= option= values= behind= word i
  for ((i = ${first}; i < ${current}; i++)); do
    word=\${${wordsArray}[i]}
    if [[ -n $option ]]; then
      [[ $word == '=' ]] || option=
    elif [[ $word == -- ]]; then
      behind=$((i + 1))
      break
    elif [[ $word == -* ]]; then
      if _broker_value "$at $word"; then option=$word; fi
    elif [[ " $(_broker_words "$at") " == *" $word "* ]]; then
      at="\${at:+$at }$word"
    fi
  done
`;
}

function shared(table: Table): string {
  return `_broker_words() {
  case $1 in
${cases(table, ({ words }) => (words.length === 0 ? '' : `echo ${quote(words.map(({ name }) => name).join(' '))}`))}  esac
}

# Whether the option takes a value; leaves what it may be in \`values\`, nothing for any file.
_broker_value() {
  case $1 in
${valueCases(table)}    *) return 1 ;;
  esac
}
`;
}

function bash(table: Table): string {
  const flags = (options: readonly CompletedOption[]) => options.flatMap((option) => option.flags).join(' ');
  return `# Completion of \`broker\` for bash. In ~/.bashrc: source <(broker completion bash)
${shared(table)}
_broker_options() {
  case $1 in
${cases(table, ({ options }) => `echo ${quote(flags(options))}`)}  esac
}

_broker() {
  local cur=\${COMP_WORDS[COMP_CWORD]}
  [[ $cur == '=' ]] && cur=
${walk('COMP_WORDS', 1, 'COMP_CWORD')}  COMPREPLY=()
  if [[ -n $behind ]]; then
    case $at in
${cases(table, ({ takesCommand }) => (takesCommand ? ':' : ''))}    *) return ;;
    esac
    if declare -F _command_offset >/dev/null; then
      _command_offset "$behind"
    elif ((COMP_CWORD == behind)); then
      mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
      compopt -o default
    fi
  elif [[ -n $option && -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
  elif [[ -n $option ]]; then
    compopt -o default
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_broker_options "$at")" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_broker_words "$at")" -- "$cur")
    case $at in
${cases(table, ({ takesFile }) => (takesFile ? 'compopt -o default' : ''))}    *) ;;
    esac
  fi
}
complete -F _broker broker
`;
}

function zsh(table: Table): string {
  const described = (name: string, about: string) => quote(`${name.replaceAll(':', '\\:')}:${about}`);
  return `#compdef broker
# Completion of \`broker\` for zsh. In ~/.zshrc, after compinit: source <(broker completion zsh)
${shared(table)}
_broker() {
${walk('words', 2, 'CURRENT')}  local -a found
  if [[ -n $behind ]]; then
    case $at in
${cases(table, ({ takesCommand }) => (takesCommand ? ':' : ''))}    *) return 1 ;;
    esac
    shift $((behind - 1)) words
    ((CURRENT -= behind - 1))
    _normal
  elif [[ -n $option && -n $values ]]; then
    compadd -- \${=values}
  elif [[ -n $option ]]; then
    _files
  elif [[ \${words[CURRENT]} == -* ]]; then
    case $at in
${cases(table, ({ options }) => `found=(${options.flatMap(({ flags, about }) => flags.map((flag) => described(flag, about))).join(' ')})`)}    esac
    _describe -o option found
  else
    case $at in
${cases(table, ({ words }) => (words.length === 0 ? '' : `found=(${words.map(({ name, about }) => described(name, about)).join(' ')})`))}${cases(table, ({ takesFile, words }) => (takesFile && words.length === 0 ? '_files; return' : ''))}    esac
    _describe command found
  fi
}
compdef _broker broker
`;
}

function fish(table: Table): string {
  const literal = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = table.flatMap(({ path, words, options, takesFile, takesCommand }) => {
    const at = `complete -c broker -n ${literal(`__broker_at ${literal(path)}`)}`;
    return [
      ...words.map(({ name, about }) => `${at} -a ${name} -d ${literal(about)}`),
      ...options.map(({ flags, values, about }) => {
        const names = flags.map((flag) =>
          flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
        );
        const value =
          values === null ? '' : values === 'anything' ? ' -r -F' : ` -x -a ${literal(values.join(' '))}`;
        return `${at} ${names.join(' ')}${value} -d ${literal(about)}`;
      }),
      ...(takesFile ? [`${at} -F`] : []),
      ...(takesCommand
        ? [
            `complete -c broker -n ${literal(`__broker_behind ${literal(path)}`)} -x -a '(__fish_complete_subcommand --commandline (__broker_wrapped))'`,
          ]
        : []),
    ];
  });
  const paths = table.map(({ path }) => path).filter((path) => path !== '');
  const valued = table.flatMap(({ path, options }) =>
    options
      .filter(({ values }) => values !== null)
      .flatMap(({ flags }) => flags.map((flag) => `${path} ${flag}`)),
  );
  return `# Completion of \`broker\` for fish: broker completion fish > ~/.config/fish/completions/broker.fish
set -g __broker_paths ${paths.map(literal).join(' ')}
set -g __broker_valued ${valued.map(literal).join(' ')}

# Prints the command so far; fails behind \`--\`.
function __broker_path
  set -l at ''
  set -l skip 0
  for word in (commandline -opc)[2..-1]
    if test $skip = 1
      set skip 0
    else if test "$word" = --
      echo $at
      return 1
    else if string match -q -- '-*' $word
      contains -- "$at $word" $__broker_valued; and set skip 1
    else if contains -- (string trim "$at $word") $__broker_paths
      set at (string trim "$at $word")
    end
  end
  echo $at
end

function __broker_at
  set -l at (__broker_path); and test "$at" = "$argv[1]"
end

function __broker_behind
  set -l at (__broker_path); or test "$at" = "$argv[1]"
end

# What stands behind \`--\`, up to the cursor.
function __broker_wrapped
  string replace -r '^.*? -- ' '' -- (commandline -cp)
end

complete -c broker -f
${lines.join('\n')}
`;
}
