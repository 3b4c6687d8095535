# For the scripts that fetch something: their words, and the per-user cache.

say() { echo "${0##*/}: $*" >&2; }
die() { say "$@"; exit 1; }

# cache_dir agrees with Go's os.UserCacheDir, which the tool uses.
cache_dir() {
  if [[ -n ${FENCEPOST_CACHE:-} ]]; then
    [[ $FENCEPOST_CACHE == /* ]] || die "FENCEPOST_CACHE=$FENCEPOST_CACHE is not an absolute path"
    echo "$FENCEPOST_CACHE"
  elif [[ $(uname -s) == Darwin ]]; then
    echo "${HOME:?is not set}/Library/Caches/fencepost"
  elif [[ -n ${XDG_CACHE_HOME:-} ]]; then
    [[ $XDG_CACHE_HOME == /* ]] || die "XDG_CACHE_HOME=$XDG_CACHE_HOME is not an absolute path"
    echo "$XDG_CACHE_HOME/fencepost"
  else
    echo "${HOME:?is not set}/.cache/fencepost"
  fi
}
