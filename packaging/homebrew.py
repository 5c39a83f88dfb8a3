"""A Homebrew formula that installs the program from the release's archives."""

import hashlib

from release import HOMEPAGE, LICENSE, SUMMARY, version

SYSTEMS = [("macos", "arm", "aarch64-apple-darwin"), ("macos", "intel", "x86_64-apple-darwin"),
           ("linux", "arm", "aarch64-unknown-linux-musl"), ("linux", "intel", "x86_64-unknown-linux-musl")]


def formula(destination):
    """Writes the formula for those archives that were made; returns None without one."""
    blocks = []
    for system in ("macos", "linux"):
        parts = []
        for name, processor, triple in SYSTEMS:
            archive = destination / f"youbencha-{version()}-{triple}.tar.gz"
            if name == system and archive.exists():
                checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
                url = f"{HOMEPAGE}/releases/download/v{version()}/{archive.name}"
                parts.append(f'    on_{processor} do\n      url "{url}"\n      sha256 "{checksum}"\n    end\n')
        if parts:
            needed = '    depends_on "bubblewrap"\n' if system == "linux" else ""
            blocks.append(f"  on_{system} do\n{needed}{''.join(parts)}  end\n\n")
    if not blocks:
        return None
    licenses = ", ".join(f'"{name}"' for name in LICENSE.split(" OR "))
    text = f'''class Youbencha < Formula
  desc "{SUMMARY}"
  homepage "{HOMEPAGE}"
  version "{version()}"
  license any_of: [{licenses}]

{"".join(blocks)}  def install
    bin.install "yb"
    bin.install_symlink "yb" => "youbencha"
    bash_completion.install "completions/yb" => "yb"
    zsh_completion.install "completions/_yb"
    fish_completion.install "completions/yb.fish"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/yb --version")
  end
end
'''
    (destination / "youbencha.rb").write_text(text)
    return "youbencha.rb"
